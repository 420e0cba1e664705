"""Weight snapshots in object storage: push, verified restore, tags."""
