"""Tags: small objects, each with the digest that ``name:tag`` names. Moved only by compare-and-swap."""

import json
import re
from dataclasses import dataclass

from baseload_storage.core.ref import DIGEST, BucketUrl, SnapshotRef
from baseload_storage.errors import (
    ObjectMissingError,
    PreconditionFailedError,
    ReferenceInvalidError,
    SnapshotCorruptError,
    SnapshotMissingError,
    TagConflictError,
)
from baseload_storage.s3 import Bucket

MAX_TAG = 4096
"""Bytes of a tag object."""
MAX_TOLD = 20
_KEY = re.compile(r"tags/(?P<name>[^/]+)/(?P<tag>[^/]+)")


@dataclass(frozen=True, slots=True)
class Tag:
    """What a tag held when it was read. digest: None if it was corrupt. etag: its version."""

    digest: str | None
    etag: str


class Tags:
    """The tags of one bucket and prefix."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def read(self, ref: SnapshotRef) -> Tag | None:
        """None if there is no such tag."""
        try:
            stored = self._bucket.get(_key(ref), MAX_TAG)
        except ObjectMissingError:
            return None
        return Tag(_digest(stored.data), stored.etag)

    def resolve(self, ref: SnapshotRef) -> str:
        """The digest. Raises SnapshotMissingError, which lists what there is, or SnapshotCorruptError."""
        tag = self.read(ref)
        if tag is None:
            raise SnapshotMissingError(f"there is no snapshot {ref}; {self._what_there_is(ref.name)}")
        if tag.digest is None:
            raise SnapshotCorruptError(f"the tag {ref} holds no digest; push again to {ref.tag}")
        return tag.digest

    def move(self, ref: SnapshotRef, digest: str, seen: Tag | None) -> bool:
        """Let the tag name ``digest``, provided that it still is what was ``seen``. Returns whether it moved.

        Raises TagConflictError if another push has moved it to something else since.
        """
        if seen is not None and seen.digest == digest:
            return False
        data = json.dumps({"digest": digest}).encode()
        try:
            self._bucket.put_over(_key(ref), data, seen.etag) if seen else self._bucket.put_new(
                _key(ref), data
            )
        except PreconditionFailedError as error:
            now = self.read(ref)
            if now is not None and now.digest == digest:
                return False
            raise TagConflictError(
                f"{ref} was moved by another push meanwhile; {digest} is stored, push again to tag it"
            ) from error
        return True

    def all(self, name: str | None = None) -> list[SnapshotRef]:
        """Every tag (of ``name``), sorted by name and tag. Keys that are no tags are passed over."""
        prefix = f"tags/{name}/" if name else "tags/"
        refs = [_ref(self._bucket.url, key) for key in self._bucket.keys(prefix)]
        return sorted((ref for ref in refs if ref), key=lambda ref: (ref.name, ref.tag))

    def _what_there_is(self, name: str) -> str:
        refs = self.all()
        if not refs:
            return f"{self._bucket.url} has none; push one"
        own = [ref for ref in refs if ref.name == name] or refs
        return f"there are {', '.join(f'{ref.name}:{ref.tag}' for ref in own[:MAX_TOLD])}"


def _key(ref: SnapshotRef) -> str:
    return f"tags/{ref.name}/{ref.tag}"


def _digest(data: bytes) -> str | None:
    try:
        digest = str(json.loads(data)["digest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return digest if DIGEST.fullmatch(digest) else None


def _ref(bucket: BucketUrl, key: str) -> SnapshotRef | None:
    match = _KEY.fullmatch(key)
    try:
        return SnapshotRef.tagged(bucket, match["name"], match["tag"]) if match else None
    except ReferenceInvalidError:
        return None
