"""What of a folder goes into a snapshot."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from baseload_storage.core.chunks import (
    HEADER_LENGTH_BYTES,
    MAX_HEADER,
    Tensor,
    cut_plain,
    cut_tensors,
    parse_header,
)
from baseload_storage.core.manifest import MAX_CHUNKS, MAX_FILES, READY, path_fault
from baseload_storage.errors import SourceInvalidError

PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """``path`` inside the snapshot; ``real`` is where its bytes are. chunks: lengths, in order."""

    path: str
    real: Path
    size: int
    mode: Literal[0o644, 0o755]
    chunks: tuple[int, ...]
    tensors: tuple[Tensor, ...]


def scan(folder: Path, *, allow_pickle: bool) -> list[SourceFile]:
    """The files of ``folder``, sorted by path, links replaced by what they lead to.

    Raises SourceInvalidError for a missing or empty folder, pickles, special files, and links that lead
    out of it or nowhere. A Hugging Face cache is a tree of links into its own ``blobs``: push such a
    snapshot folder and the links are followed, since they stay inside the repository's cache folder.
    The marker of a finished restore is left out, so a restored folder can be pushed as it is.
    """
    if not folder.is_dir():
        raise SourceInvalidError(f"{folder} is not a folder; give one that holds a model")
    paths = {path.relative_to(folder).as_posix(): path for path in _walk(folder)}
    paths.pop(READY, None)
    if not paths:
        raise SourceInvalidError(f"{folder} holds no file; give one that holds a model")
    files = [_file(folder, name, paths[name], allow_pickle) for name in sorted(paths)]
    if len(files) > MAX_FILES or sum(len(file.chunks) for file in files) > MAX_CHUNKS:
        raise SourceInvalidError(f"{folder} holds more than a snapshot can: {MAX_FILES} files, 16 TB")
    return files


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Raises SourceInvalidError for what the file system refuses inside."""
    try:
        yield
    except OSError as error:
        raise SourceInvalidError(f"{error.filename or path} cannot be read: {error.strerror}") from error


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []
    with readable(folder):
        for parent, folders, names in os.walk(folder, onerror=_refuse):
            for name in folders:
                if (Path(parent) / name).is_symlink():
                    raise SourceInvalidError(
                        f"{Path(parent) / name} is a link to a folder; copy what it leads to"
                    )
            found += (Path(parent) / name for name in names)
    return found


def _refuse(error: OSError) -> None:
    raise error


def is_pickle(path: str) -> bool:
    return Path(path).suffix.lower() in PICKLES


def _file(folder: Path, name: str, path: Path, allow_pickle: bool) -> SourceFile:
    if is_pickle(name) and not allow_pickle:
        raise SourceInvalidError(
            f"{path} is a pickle, which can run code when loaded; convert it to safetensors, or allow pickles"
        )
    if fault := path_fault(name):
        raise SourceInvalidError(f"the path {name!r} in {folder} {fault}; rename it")
    real = _resolved(folder, path)
    with readable(path):
        status = real.stat()
        tensors, chunks = _cuts(path, real, status.st_size)
    mode: Literal[0o644, 0o755] = 0o755 if status.st_mode & 0o100 else 0o644
    return SourceFile(name, real, status.st_size, mode, chunks, tensors)


def _resolved(folder: Path, path: Path) -> Path:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise SourceInvalidError(f"{path} is a link that leads nowhere") from error
    if not real.is_file():
        raise SourceInvalidError(f"{path} is neither a file nor a folder; remove it")
    if not real.is_relative_to(_boundary(folder.resolve())):
        raise SourceInvalidError(f"{path} is a link that leaves the folder, to {real}; copy the file")
    return real


def _boundary(folder: Path) -> Path:
    """Links may lead anywhere inside the folder, or inside the hub cache of one repository."""
    is_hub_cache = folder.parent.name == "snapshots" and (folder.parent.parent / "blobs").is_dir()
    return folder.parent.parent if is_hub_cache else folder


def _cuts(path: Path, real: Path, size: int) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    if path.suffix != ".safetensors":
        return (), cut_plain(size)
    with real.open("rb") as file:
        prefix = file.read(HEADER_LENGTH_BYTES)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < HEADER_LENGTH_BYTES or length > min(MAX_HEADER, size):
            raise SourceInvalidError(
                f"{path} is not a safetensors file: its header does not fit; is it cut off?"
            )
        header = prefix + file.read(length)
    try:
        tensors = parse_header(header, size)
    except ValueError as error:
        raise SourceInvalidError(f"{path} is not a whole safetensors file: {error}") from error
    return tensors, cut_tensors(len(header), tensors)
