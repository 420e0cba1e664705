"""The snapshots of one bucket: push, tags, list, show.

Nothing is visible before it is whole: packs first, then the manifest that names them, then the tag that
names the manifest. Packs and manifests are named by their content and written with If-None-Match, tags
with If-None-Match or If-Match, so of two pushers each either succeeds or is told.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from baseload_storage.content import manifest_key, pack_key, put_content
from baseload_storage.core.manifest import Chunk, Manifest, decode, digest_of
from baseload_storage.core.ref import DEFAULT_TAG, BucketUrl, SnapshotRef
from baseload_storage.errors import ObjectMissingError, SnapshotCorruptError, SnapshotMissingError
from baseload_storage.hub import download
from baseload_storage.probe import require_conditional_writes
from baseload_storage.s3 import Bucket
from baseload_storage.settings import S3Settings
from baseload_storage.source import scan
from baseload_storage.tags import Tags
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
        self._tags = Tags(bucket)

    @classmethod
    def open(cls, bucket_url: str, settings: S3Settings | None = None) -> "SnapshotStore":
        """Raises ReferenceInvalidError. The store itself is asked by the first call that needs it."""
        return cls(Bucket(BucketUrl.parse(bucket_url), settings or S3Settings()))

    def ensure_bucket(self) -> None:
        """Create the bucket if it is missing."""
        self._bucket.ensure()

    def push_folder(
        self,
        folder: Path,
        name: str,
        tag: str = DEFAULT_TAG,
        *,
        origin: str | None = None,
        allow_pickle: bool = False,
        progress: Progress = no_progress,
    ) -> PushResult:
        """Store ``folder`` and let ``name:tag`` point to it. Only chunks that the store lacks are uploaded.

        Raises ReferenceInvalidError, SourceInvalidError, StoreUnsafeError, TagConflictError (another push
        moved the tag since this one began), or what the store refuses.
        """
        ref = SnapshotRef.tagged(self._bucket.url, name, tag)
        sources = scan(folder, allow_pickle=allow_pickle)
        require_conditional_writes(self._bucket)
        seen = self._tags.read(ref)
        total = sum(source.size for source in sources)
        uploader = Uploader(self._bucket, self._stored_chunks(ref), progress, total)
        files = uploader.upload(sources)
        data = describe(sources, files, origin or "folder").encode()
        digest = digest_of(data)
        new = put_content(self._bucket, manifest_key(digest), data)
        moved = self._tags.move(ref, digest, seen)
        return PushResult(digest, len(files), total, uploader.uploaded, not (new or moved))

    def push_hub(
        self,
        uri: str,
        name: str,
        tag: str = DEFAULT_TAG,
        *,
        allow_patterns: Sequence[str] | None = None,
        ignore_patterns: Sequence[str] | None = None,
        allow_pickle: bool = False,
        progress: Progress = no_progress,
    ) -> PushResult:
        """Store a repository of the Hugging Face hub: ``hf://org/name[@revision]``. Raises HubError too.

        Pickles that stand beside safetensors are left out unless allowed. The download needs room for the
        repository in the folder of temporary files (TMPDIR).
        """
        SnapshotRef.tagged(self._bucket.url, name, tag)  # a wrong name is told before the download
        with tempfile.TemporaryDirectory(prefix="baseload-hub-") as folder:
            origin = download(uri, Path(folder), allow_patterns, ignore_patterns, allow_pickle=allow_pickle)
            return self.push_folder(
                Path(folder), name, tag, origin=origin, allow_pickle=allow_pickle, progress=progress
            )

    def resolve(self, ref: SnapshotRef) -> str:
        """The digest that ``ref`` names. Raises SnapshotMissingError, which lists what there is."""
        return ref.digest or self._tags.resolve(ref)

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
            data = self._bucket.get(manifest_key(digest)).data
        except ObjectMissingError as error:
            raise SnapshotMissingError(f"{ref} names {digest}, of which there is no manifest") from error
        try:
            return decode(data, digest)
        except ValueError as error:
            raise SnapshotCorruptError(f"the manifest {digest} of {ref} is corrupt: {error}") from error

    def snapshots(self) -> list[SnapshotInfo]:
        """Every tag, sorted by name and tag."""
        return [self._info(ref) for ref in self._tags.all()]

    def _info(self, ref: SnapshotRef) -> SnapshotInfo:
        digest = self.resolve(ref)
        manifest = self.show(ref.at(digest))
        return SnapshotInfo(ref.name, ref.tag, digest, manifest.size, len(manifest.files), manifest.origin)

    def _stored_chunks(self, ref: SnapshotRef) -> list[Chunk]:
        """What a new version of the model may share: the chunks of all its tags whose packs are whole.

        The tag that is pushed to comes last and therefore wins, so that the same content pushed to it
        again makes the same manifest. A pack that is gone or too short counts for nothing, so that the same
        content fills it again.
        """
        tags = sorted(self._tags.all(ref.name), key=lambda each: each.tag == ref.tag)
        chunks = [chunk for each in tags for chunk in self._chunks(each)]
        ends: dict[str, int] = {}
        for chunk in chunks:
            ends[chunk.pack] = max(ends.get(chunk.pack, 0), chunk.offset + chunk.length)
        sizes = self._bucket.sizes("packs/") if ends else {}
        whole = {pack for pack, end in ends.items() if sizes.get(pack_key(pack), 0) >= end}
        return [chunk for chunk in chunks if chunk.pack in whole]

    def _chunks(self, ref: SnapshotRef) -> list[Chunk]:
        """None of a snapshot that cannot be read: then its chunks are uploaded anew."""
        try:
            return [chunk for file in self.show(ref).files for chunk in file.chunks]
        except (SnapshotMissingError, SnapshotCorruptError):
            return []
