"""The one-machine runtime: the manifests' parts as processes on loopback."""
