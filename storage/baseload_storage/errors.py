"""What can go wrong between a folder and an object store, each with what to do about it."""


class StorageError(Exception):
    """Base of this package's errors."""

    status = 500
    retryable = False


class ReferenceInvalidError(StorageError):
    """A snapshot reference does not follow the grammar."""

    status = 400


class SettingsInvalidError(StorageError):
    """A setting, or the environment variable that gives it, cannot be used."""

    status = 400


class SourceInvalidError(StorageError):
    """The folder or repository to push cannot be taken: missing, empty, pickles, links that leave it."""

    status = 400


class HubError(StorageError):
    """The model hub refused: no such repository or revision, gated, not reachable."""

    status = 502


class StoreUnreachableError(StorageError):
    """The endpoint does not answer."""

    status = 503
    retryable = True


class TransferCutError(StoreUnreachableError):
    """The store broke off in the middle of an answer."""


class AccessDeniedError(StorageError):
    """The store rejects the credentials, or they lack a right."""

    status = 403


class BucketMissingError(StorageError):
    status = 404


class SnapshotMissingError(StorageError):
    """No such name, tag or digest in the store."""

    status = 404


class SnapshotCorruptError(StorageError):
    """What the store holds is not what the digest says; nothing of it is kept."""


class SnapshotIncompleteError(StorageError):
    """A pack that the manifest names is gone from the store."""


class TagConflictError(StorageError):
    """Another writer moved the tag in the meantime; nothing was overwritten."""

    status = 409
    retryable = True


class StoreUnsafeError(StorageError):
    """The store ignores conditional writes, so two writers could overwrite each other."""


class TargetUnusableError(StorageError):
    """The local folder cannot be written: no space, no right, in the way."""


class PreconditionFailedError(StorageError):
    """A conditional write lost: the object is there, or has changed."""

    status = 412


class WriteConflictError(PreconditionFailedError):
    """Another write of the same object was under way: not lost yet, to be tried again."""

    status = 409
    retryable = True


class ObjectMissingError(StorageError):
    status = 404


class ObjectShortError(StorageError):
    """An object ends before the range that was asked for."""
