"""Whether a store keeps its promise about conditional writes."""

from collections.abc import Callable
from uuid import uuid4

from baseload_storage.errors import PreconditionFailedError, StoreUnsafeError
from baseload_storage.s3 import Bucket

OTHER_ETAG = f'"{"0" * 32}"'


def require_conditional_writes(bucket: Bucket) -> None:
    """Raises StoreUnsafeError for a store on which two pushers could overwrite each other."""
    key = f"probes/{uuid4().hex}"
    bucket.put_new(key, b"1")
    try:
        ignored = [
            header
            for header, write in (
                ("If-None-Match", lambda: bucket.put_new(key, b"2")),
                ("If-Match", lambda: bucket.put_over(key, b"3", OTHER_ETAG)),
            )
            if not _is_refused(write)
        ]
    finally:
        bucket.delete(key)
    if ignored:
        raise StoreUnsafeError(
            f"{bucket.url} ignores {' and '.join(ignored)}; use a store with conditional writes"
        )


def _is_refused(write: Callable[[], None]) -> bool:
    try:
        write()
    except PreconditionFailedError:
        return True
    return False
