"""What stops the local runtime, each with what to do about it."""


class LocalError(Exception):
    """Base of this package's errors."""

    status = 500
    retryable = False


class AlreadyRunningError(LocalError):
    """Another ``baseload up`` holds the state folder."""


class NotRunningError(LocalError):
    """Nothing to stop or to show."""


class PortInUseError(LocalError):
    """Another process listens where we should."""


class ProcessFailedError(LocalError):
    """A part ended before it was ready; the message carries its last words."""


class MissingSnapshotError(LocalError):
    """A manifest names a snapshot that the object store lacks."""
