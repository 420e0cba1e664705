"""What stops the local runtime, each with what to do about it."""

from pathlib import Path


class LocalError(Exception):
    """Base of this package's errors."""

    status = 500
    retryable = False


class AlreadyRunningError(LocalError):
    """Another ``baseload up`` holds the state folder."""

    def __init__(self, state: Path) -> None:
        super().__init__(f"a stack already runs from {state}; stop it with: baseload down")


class NotRunningError(LocalError):
    """Nothing to stop or to show."""


class PortInUseError(LocalError):
    """Another process listens where we should."""


class ProcessFailedError(LocalError):
    """A part ended before it was ready; the message carries its last words."""


class MissingSnapshotError(LocalError):
    """A manifest names a snapshot that the object store lacks."""
