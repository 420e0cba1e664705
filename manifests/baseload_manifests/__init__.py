"""Typed KServe manifests: loading, validation and rules. The bottom package: it imports no other."""
