"""What of a folder goes into a snapshot."""

import os
from dataclasses import dataclass
from pathlib import Path

from baseload_storage.core.chunks import (
    HEADER_LENGTH_BYTES,
    MAX_HEADER,
    Tensor,
    cut_plain,
    cut_tensors,
    parse_header,
)
from baseload_storage.errors import SourceInvalidError

PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """``path`` inside the snapshot; ``real`` is where its bytes are. chunks: lengths, in order."""

    path: str
    real: Path
    size: int
    mode: int
    chunks: tuple[int, ...]
    tensors: tuple[Tensor, ...]


def scan(folder: Path, *, allow_pickle: bool) -> list[SourceFile]:
    """The files of ``folder``, sorted by path, links replaced by what they lead to.

    Raises SourceInvalidError for a missing or empty folder, pickles, special files, and links that lead
    out of it or nowhere. A Hugging Face cache is a tree of links into its own ``blobs``: push such a
    snapshot folder and the links are followed, since they stay inside the repository's cache folder.
    """
    if not folder.is_dir():
        raise SourceInvalidError(f"{folder} is not a folder; give one that holds a model")
    files = [_file(folder, path, allow_pickle) for path in sorted(_walk(folder))]
    if not files:
        raise SourceInvalidError(f"{folder} holds no file; give one that holds a model")
    return files


def _walk(folder: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        for name in folders:
            if (Path(parent) / name).is_symlink():
                raise SourceInvalidError(
                    f"{Path(parent) / name} is a link to a folder; copy what it leads to"
                )
        found += (Path(parent) / name for name in names)
    return found


def _file(folder: Path, path: Path, allow_pickle: bool) -> SourceFile:
    if path.suffix in PICKLES and not allow_pickle:
        raise SourceInvalidError(
            f"{path} is a pickle, which can run code when loaded; convert it to safetensors, or allow pickles"
        )
    real = _resolved(folder, path)
    status = real.stat()
    mode = 0o755 if status.st_mode & 0o100 else 0o644
    tensors, chunks = _cuts(real, status.st_size)
    return SourceFile(path.relative_to(folder).as_posix(), real, status.st_size, mode, chunks, tensors)


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


def _cuts(real: Path, size: int) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    if real.suffix != ".safetensors":
        return (), cut_plain(size)
    with real.open("rb") as file:
        prefix = file.read(HEADER_LENGTH_BYTES)
        length = int.from_bytes(prefix, "little")
        if len(prefix) < HEADER_LENGTH_BYTES or length > min(MAX_HEADER, size):
            raise SourceInvalidError(
                f"{real} is not a safetensors file: its header does not fit; is it cut off?"
            )
        header = prefix + file.read(length)
    try:
        tensors = parse_header(header, size)
    except ValueError as error:
        raise SourceInvalidError(f"{real} is not a whole safetensors file: {error}") from error
    return tensors, cut_tensors(len(header), tensors)
