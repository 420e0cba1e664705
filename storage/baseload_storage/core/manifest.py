"""The snapshot manifest, format 1: what a snapshot consists of, and nothing that could change.

Theory of operation. A manifest lists files; a file is its chunks in order, so chunks tile a file by
construction and offsets need no room. Each chunk names its BLAKE3 digest and where it lies: pack, offset,
length. The manifest's own canonical bytes (JSON, keys sorted, no spaces, UTF-8) have a digest too, and
that names the snapshot. Whoever holds the name can therefore verify everything below it.

Reading is strict: a manifest comes from a store that others may write to, so every path, size and count
is checked before it is used, and bytes that are not the canonical form of what they say are refused. One
content therefore has one name.
"""

import json
import re
from itertools import accumulate, pairwise
from typing import Annotated, Literal

from blake3 import blake3
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from baseload_storage.core.chunks import MAX_CHUNK
from baseload_storage.core.ref import DIGEST

MAX_FILES = 100_000
MAX_CHUNKS = 1_000_000
MAX_FILE = 1 << 42
MAX_MANIFEST = 256 * 1024 * 1024
MAX_PATH = 1024
MAX_PATH_PART = 255
"""What Linux file systems take as one name, bytes."""
READY = ".baseload-ready"
"""The marker that a restore leaves in a finished folder; no snapshot may hold a file of this name."""
_UNFIT = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")

Digest = Annotated[str, Field(pattern=f"^{DIGEST.pattern}$")]
Size = Annotated[int, Field(ge=0, le=MAX_FILE)]


def digest_of(data: bytes | bytearray | memoryview) -> str:
    """``blake3:`` and 64 hexadecimal digits."""
    return f"blake3:{blake3(data).hexdigest()}"


EMPTY = digest_of(b"")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Chunk(_Part):
    """``length`` bytes with ``digest``, at ``offset`` of the object ``pack``."""

    digest: Digest
    length: Annotated[int, Field(ge=1, le=MAX_CHUNK)]
    pack: Digest
    offset: Size


def path_fault(path: str) -> str | None:
    """Why ``path`` cannot stand in a manifest; None if it can."""
    parts = path.split("/")
    if _UNFIT.search(path):
        return "holds a backslash, control characters or bytes that are no UTF-8"
    if any(part in {"", ".", ".."} for part in parts):
        return "is absolute or leaves the folder"
    if len(path.encode()) > MAX_PATH or any(len(part.encode()) > MAX_PATH_PART for part in parts):
        return "is too long"
    return "is the name of the marker of a finished restore" if parts[0] == READY else None


class File(_Part):
    """A file: relative ``path`` with slashes, ``mode`` 0o644 or 0o755, ``size`` bytes, chunks in order."""

    path: str
    mode: Literal[0o644, 0o755]
    size: Size
    digest: Digest
    chunks: tuple[Chunk, ...] = ()

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, path: str) -> str:
        if fault := path_fault(path):
            raise ValueError(f"path {path!r} {fault}")
        return path

    @model_validator(mode="after")
    def _tiled(self) -> "File":
        total = sum(chunk.length for chunk in self.chunks)
        if total != self.size:
            raise ValueError(f"the chunks of {self.path} hold {total} bytes, the file {self.size}")
        if len(self.chunks) <= 1 and self.digest != (self.chunks[0].digest if self.chunks else EMPTY):
            raise ValueError(f"the digest of {self.path} is not that of its only chunk")
        return self


class WarmedWith(_Part):
    """The engine whose compile artefacts belong to the snapshot."""

    engine: str
    version: str


class Manifest(_Part):
    """A whole snapshot. ``parameters``: elements of all tensors. ``licence``: path of the licence file."""

    format: Literal[1] = 1
    origin: str
    dtype: str | None = None
    parameters: Annotated[int, Field(ge=0)] | None = None
    licence: str | None = None
    warmed_with: WarmedWith | None = None
    files: Annotated[tuple[File, ...], Field(min_length=1, max_length=MAX_FILES)]

    @model_validator(mode="after")
    def _consistent(self) -> "Manifest":
        paths = [file.path for file in self.files]
        for before, path in pairwise(paths):
            if path <= before:
                raise ValueError(f"path {path!r} stands twice, or not in order")
        files = set(paths)
        for path in paths:
            folders = accumulate(path.split("/")[:-1], "{}/{}".format)
            if both := next((folder for folder in folders if folder in files), None):
                raise ValueError(f"path {both!r} is a file and a folder")
        if sum(len(file.chunks) for file in self.files) > MAX_CHUNKS:
            raise ValueError(f"more than {MAX_CHUNKS} chunks")
        return self

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def encode(self) -> bytes:
        """The canonical bytes: JSON with sorted keys, no spaces, UTF-8, every field written."""
        fields = self.model_dump(mode="json")
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes, digest: str) -> Manifest:
    """The manifest that ``digest`` names. Raises ValueError, told in one line."""
    actual = digest_of(data)
    if actual != digest:
        raise ValueError(f"its bytes have digest {actual}")
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where or 'manifest'}: {first['msg']}") from error
    if manifest.encode() != data:
        raise ValueError("its bytes are not in canonical form")
    return manifest
