"""Chunks into packs: read once, hashed once, uploaded only if the store lacks them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from blake3 import blake3

from baseload_storage.content import pack_key, put_content
from baseload_storage.core.manifest import Chunk, File, Manifest, digest_of
from baseload_storage.errors import SourceInvalidError
from baseload_storage.s3 import Bucket
from baseload_storage.source import SourceFile, readable

PACK_SIZE = 64 * 1024 * 1024
"""A pack is held in memory until it is uploaded, bytes."""

Progress = Callable[[int, int], None]


class Uploader:
    """Fills packs with the chunks that ``known`` lacks. Not for use by several threads."""

    def __init__(self, bucket: Bucket, known: Iterable[Chunk], progress: Progress, total: int) -> None:
        self._bucket = bucket
        self._known = {chunk.digest: chunk for chunk in known}
        self._pack = bytearray()
        self._pending: dict[str, tuple[int, int]] = {}
        self._progress = progress
        self._total = total
        self._done = 0
        self.uploaded = 0

    def upload(self, sources: list[SourceFile]) -> tuple[File, ...]:
        """All files of the manifest, their chunks stored. Raises SourceInvalidError if one changes."""
        read = [self._read(source) for source in sources]
        self._flush()
        return tuple(
            File(
                path=source.path,
                mode=source.mode,
                size=source.size,
                digest=digest,
                chunks=tuple(self._known[chunk] for chunk in chunks),
            )
            for source, (digest, chunks) in zip(sources, read, strict=True)
        )

    def _read(self, source: SourceFile) -> tuple[str, list[str]]:
        whole = blake3()
        digests = []
        for data in _chunks(source):
            whole.update(data)
            digests.append(self._store(data))
            self._done += len(data)
            self._progress(self._done, self._total)
        return f"blake3:{whole.hexdigest()}", digests

    def _store(self, data: bytes) -> str:
        digest = digest_of(data)
        if digest not in self._known and digest not in self._pending:
            if self._pack and len(self._pack) + len(data) > PACK_SIZE:
                self._flush()
            self._pending[digest] = (len(self._pack), len(data))
            self._pack += data
        return digest

    def _flush(self) -> None:
        if not self._pack:
            return
        pack = digest_of(self._pack)
        if put_content(self._bucket, pack_key(pack), bytes(self._pack)):
            self.uploaded += len(self._pack)
        for digest, (offset, length) in self._pending.items():
            self._known[digest] = Chunk(digest=digest, length=length, pack=pack, offset=offset)
        self._pack.clear()
        self._pending.clear()


def _chunks(source: SourceFile) -> Iterator[bytes]:
    with readable(source.real), source.real.open("rb") as file:
        for length in source.chunks:
            data = file.read(length)
            if len(data) != length:
                raise SourceInvalidError(f"{source.path} became shorter while it was read; push again")
            yield data
        if file.read(1):
            raise SourceInvalidError(f"{source.path} became longer while it was read; push again")


def describe(sources: list[SourceFile], files: tuple[File, ...], origin: str) -> Manifest:
    """The manifest, with what the tensors' headers tell."""
    elements = Counter[str]()
    for source in sources:
        for tensor in source.tensors:
            elements[tensor.dtype] += tensor.elements
    licences = (file.path for file in files if file.path.upper().startswith(("LICENSE", "LICENCE")))
    return Manifest(
        origin=origin,
        dtype=elements.most_common(1)[0][0] if elements else None,
        parameters=elements.total() if elements else None,
        licence=next(licences, None),
        files=files,
    )
