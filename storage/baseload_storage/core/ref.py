"""How a snapshot is named.

    s3://bucket[/prefix]/name            the tag ``latest``
    s3://bucket[/prefix]/name:tag        a tag, which may move
    s3://bucket[/prefix]/name@blake3:HEX exactly these bytes, for ever

The name is the last part of the path. A bucket's objects of one model lie below ``tags/name/``, so no
name is ever a prefix of another's objects.
"""

import re
from dataclasses import dataclass

from baseload_storage.errors import ReferenceInvalidError

DEFAULT_TAG = "latest"
DIGEST = re.compile(r"blake3:[0-9a-f]{64}")
_NAME = r"[a-z0-9](?:[a-z0-9._-]{0,126}[a-z0-9])?"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
_BUCKET_URL = re.compile(
    r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[A-Za-z0-9._/-]+?))?/?"
)
_REF = re.compile(
    rf"(?P<base>s3://.*[^/])/(?P<name>{_NAME})(?::(?P<tag>{_TAG})|@(?P<digest>{DIGEST.pattern}))?"
)


@dataclass(frozen=True, slots=True)
class BucketUrl:
    """Where snapshots lie. ``prefix`` has no slash at its ends; empty for the bucket's root."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> "BucketUrl":
        """Raises ReferenceInvalidError."""
        match = _BUCKET_URL.fullmatch(text)
        prefix = (match["prefix"] or "") if match else ""
        if match is None or any(part in {"", ".", ".."} for part in prefix.split("/") if prefix):
            raise ReferenceInvalidError(f"{text!r} is no bucket URL; write s3://bucket or s3://bucket/prefix")
        return cls(match["bucket"], prefix)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """One snapshot: by ``digest`` where it is given, else by ``tag``."""

    bucket: BucketUrl
    name: str
    tag: str = DEFAULT_TAG
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> "SnapshotRef":
        """Raises ReferenceInvalidError."""
        match = _REF.fullmatch(text)
        if match is None:
            raise ReferenceInvalidError(
                f"{text!r} is no snapshot; write s3://bucket/name, name:tag or name@blake3:DIGEST"
                " (names are lower case, tags have no slash)"
            )
        bucket = BucketUrl.parse(match["base"])
        return cls(bucket, match["name"], match["tag"] or DEFAULT_TAG, match["digest"])

    @classmethod
    def tagged(cls, bucket: BucketUrl, name: str, tag: str) -> "SnapshotRef":
        """The snapshot that a tag names, name and tag checked. Raises ReferenceInvalidError."""
        ref = cls(bucket, name, tag)
        if cls.parse(str(ref)) != ref:
            raise ReferenceInvalidError(f"{name!r} is no model name; a folder belongs into the bucket URL")
        return ref

    def at(self, digest: str) -> "SnapshotRef":
        """The same model, pinned to ``digest``."""
        return SnapshotRef(self.bucket, self.name, self.tag, digest)

    def __str__(self) -> str:
        return f"{self.bucket}/{self.name}" + (f"@{self.digest}" if self.digest else f":{self.tag}")
