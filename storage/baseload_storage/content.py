"""Objects named by what they hold: packs and manifests. Written once, verified before anything names them."""

from baseload_storage.core.manifest import digest_of
from baseload_storage.errors import PreconditionFailedError, SnapshotCorruptError
from baseload_storage.s3 import Bucket, Head, sha256_of


def pack_key(digest: str) -> str:
    return f"packs/{digest.removeprefix('blake3:')}"


def manifest_key(digest: str) -> str:
    return f"manifests/{digest.removeprefix('blake3:')}"


def put_content(bucket: Bucket, key: str, data: bytes) -> bool:
    """Store ``data`` under ``key`` unless it is there, whole. Returns whether it was uploaded.

    What an earlier push, or a fault of the store, left there instead is replaced: the key says what belongs
    there. Raises SnapshotCorruptError for a store that does not keep what it is given.
    """
    try:
        bucket.put_new(key, data)
    except PreconditionFailedError:
        found = bucket.head(key)
        if _is_whole(bucket, key, data, found):
            return False
        bucket.put_over(key, data, found.etag)
    if not _is_whole(bucket, key, data, bucket.head(key)):
        raise SnapshotCorruptError(
            f"{bucket.where(key)} holds other bytes than were uploaded; check the store"
        )
    return True


def _is_whole(bucket: Bucket, key: str, data: bytes, head: Head) -> bool:
    """By the store's own checksum, or by reading back from a store that keeps none."""
    if head.size != len(data):
        return False
    if head.sha256 is not None:
        return head.sha256 == sha256_of(data)
    return digest_of(bucket.get(key, len(data)).data) == digest_of(data)
