"""Types and rules of manifests: no I/O."""
