"""The snapshots of one bucket: push, tags, list, show.

Nothing is visible before it is whole: packs first, then the manifest that names them, then the tag that
names the manifest. Packs and manifests are named by their content and written with If-None-Match, tags
with If-None-Match or If-Match, so of two pushers each either succeeds or is told.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from baseload_storage.core.manifest import Chunk, Manifest, decode, digest_of
from baseload_storage.core.ref import DIGEST, BucketUrl, SnapshotRef
from baseload_storage.errors import (
    ObjectMissingError,
    PreconditionFailedError,
    ReferenceInvalidError,
    SnapshotCorruptError,
    SnapshotMissingError,
    StoreUnsafeError,
    TagConflictError,
)
from baseload_storage.hub import download
from baseload_storage.s3 import Bucket
from baseload_storage.settings import S3Settings
from baseload_storage.source import scan
from baseload_storage.uploading import Progress, Uploader, describe


@dataclass(frozen=True, slots=True)
class PushResult:
    """bytes_total: of all files. bytes_uploaded: of the packs that the store lacked."""

    digest: str
    files: int
    bytes_total: int
    bytes_uploaded: int
    already_there: bool


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """One tag and what it names."""

    name: str
    tag: str
    digest: str
    bytes_total: int
    files: int
    origin: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def no_progress(done: int, total: int) -> None:
    """For callers who show none."""


class SnapshotStore:
    """Snapshots below ``s3://bucket[/prefix]``."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    @classmethod
    def open(cls, bucket_url: str, settings: S3Settings | None = None) -> "SnapshotStore":
        """Raises ReferenceInvalidError. The store itself is asked by the first call that needs it."""
        try:
            url = BucketUrl.parse(bucket_url)
        except ValueError as error:
            raise ReferenceInvalidError(str(error)) from error
        return cls(Bucket(url, settings or S3Settings()))

    def ensure_bucket(self) -> None:
        self._bucket.ensure()

    def push_folder(
        self,
        folder: Path,
        name: str,
        tag: str = "latest",
        *,
        origin: str | None = None,
        allow_pickle: bool = False,
        progress: Progress = no_progress,
    ) -> PushResult:
        """Store ``folder`` and let ``name:tag`` point to it. Only chunks that the store lacks are uploaded.

        Raises SourceInvalidError, StoreUnsafeError, TagConflictError, or what the store refuses.
        """
        sources = scan(folder, allow_pickle=allow_pickle)
        self._require_conditional_writes()
        total = sum(source.size for source in sources)
        uploader = Uploader(self._bucket, self._known_chunks(name), progress, total)
        files = uploader.upload(sources)
        manifest = describe(sources, files, origin or "folder")
        digest, new = self._put_manifest(manifest)
        moved = self._move_tag(name, tag, digest)
        return PushResult(digest, len(files), total, uploader.uploaded, not (new or moved))

    def push_hub(
        self,
        uri: str,
        name: str,
        tag: str = "latest",
        *,
        allow_patterns: Sequence[str] | None = None,
        ignore_patterns: Sequence[str] | None = None,
        allow_pickle: bool = False,
        progress: Progress = no_progress,
    ) -> PushResult:
        """Store a repository of the Hugging Face hub: ``hf://org/name[@revision]``. Raises HubError too."""
        with tempfile.TemporaryDirectory(prefix="baseload-hub-") as folder:
            origin = download(uri, Path(folder), allow_patterns, ignore_patterns)
            return self.push_folder(
                Path(folder), name, tag, origin=origin, allow_pickle=allow_pickle, progress=progress
            )

    def resolve(self, ref: SnapshotRef) -> str:
        """The digest that ``ref`` names. Raises SnapshotMissingError, which lists what there is."""
        if ref.digest is not None:
            return ref.digest
        try:
            return self._read_tag(ref.name, ref.tag)[0]
        except ObjectMissingError as error:
            raise SnapshotMissingError(
                f"there is no snapshot {ref}; {self._what_there_is(ref.name)}"
            ) from error

    def exists(self, ref: SnapshotRef) -> bool:
        """Whether the snapshot is there, manifest included."""
        try:
            self.show(ref)
        except SnapshotMissingError:
            return False
        return True

    def show(self, ref: SnapshotRef) -> Manifest:
        """The verified manifest. Raises SnapshotMissingError or SnapshotCorruptError."""
        digest = self.resolve(ref)
        try:
            data = self._bucket.get(_manifest_key(digest)).data
        except ObjectMissingError as error:
            raise SnapshotMissingError(f"{ref} names {digest}, of which there is no manifest") from error
        try:
            return decode(data, digest)
        except ValueError as error:
            raise SnapshotCorruptError(f"the manifest {digest} of {ref} is corrupt: {error}") from error

    def snapshots(self) -> list[SnapshotInfo]:
        """Every tag, sorted by name and tag."""
        tags = sorted(key.removeprefix("tags/").split("/", 1) for key in self._bucket.keys("tags/"))
        return [self._info(name, tag) for name, tag in tags]

    def _info(self, name: str, tag: str) -> SnapshotInfo:
        ref = SnapshotRef(self._bucket.url, name, tag)
        digest = self.resolve(ref)
        manifest = self.show(SnapshotRef(self._bucket.url, name, digest=digest))
        return SnapshotInfo(name, tag, digest, manifest.size, len(manifest.files), manifest.origin)

    def _known_chunks(self, name: str) -> list[Chunk]:
        """The chunks of every snapshot that a tag of ``name`` points to: what a new version may share."""
        chunks: list[Chunk] = []
        for key in self._bucket.keys(f"tags/{name}/"):
            ref = SnapshotRef(self._bucket.url, name, key.rpartition("/")[2])
            chunks += (chunk for file in self.show(ref).files for chunk in file.chunks)
        return chunks

    def _put_manifest(self, manifest: Manifest) -> tuple[str, bool]:
        data = manifest.encode()
        digest = digest_of(data)
        try:
            self._bucket.put_new(_manifest_key(digest), data)
        except PreconditionFailedError:
            return digest, False
        return digest, True

    def _move_tag(self, name: str, tag: str, digest: str) -> bool:
        data = json.dumps({"digest": digest}).encode()
        key = _tag_key(name, tag)
        try:
            current, etag = self._read_tag(name, tag)
        except ObjectMissingError:
            current, etag = "", ""
        if current == digest:
            return False
        try:
            self._bucket.put_over(key, data, etag) if etag else self._bucket.put_new(key, data)
        except PreconditionFailedError as error:
            if self._read_tag(name, tag)[0] == digest:
                return False
            raise TagConflictError(
                f"{name}:{tag} was moved by another push meanwhile; {digest} is stored, push again to tag it"
            ) from error
        return True

    def _read_tag(self, name: str, tag: str) -> tuple[str, str]:
        stored = self._bucket.get(_tag_key(name, tag))
        try:
            digest = json.loads(stored.data)["digest"]
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotCorruptError(f"the tag {name}:{tag} is corrupt; push again to {tag}") from error
        if not DIGEST.fullmatch(str(digest)):
            raise SnapshotCorruptError(f"the tag {name}:{tag} holds {digest!r}, which is no digest")
        return str(digest), stored.etag

    def _what_there_is(self, name: str) -> str:
        tags = [key.removeprefix("tags/").replace("/", ":") for key in self._bucket.keys("tags/")]
        own = [tag for tag in tags if tag.startswith(f"{name}:")]
        return f"there are {', '.join(sorted(own or tags)[:20])}" if tags else f"{self._bucket.url} has none"

    def _require_conditional_writes(self) -> None:
        """Raises StoreUnsafeError for a store on which two pushers could overwrite each other."""
        key = f"probes/{uuid4().hex}"
        self._bucket.put_new(key, b"1")
        try:
            self._bucket.put_new(key, b"2")
        except PreconditionFailedError:
            return
        finally:
            self._bucket.delete(key)
        raise StoreUnsafeError(
            f"{self._bucket.url} ignores If-None-Match; use a store with conditional writes"
        )


def _manifest_key(digest: str) -> str:
    return f"manifests/{digest.removeprefix('blake3:')}"


def _tag_key(name: str, tag: str) -> str:
    return f"tags/{name}/{tag}"
