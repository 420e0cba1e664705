"""Decisions of the storage package: references, chunks, manifests, range plans. No I/O."""
