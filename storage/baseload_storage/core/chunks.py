"""Where files are cut.

Theory of operation. A chunk is the unit of verification and of sharing between snapshots. A safetensors
file is cut where its tensors begin, so a fine-tune that changes some tensors shares the chunks of all
others, even if the header grew and everything behind it moved. Tensors smaller than ``MAX_CHUNK`` are
grouped up to it in file order; larger ones are cut every ``MAX_CHUNK`` bytes from their own start. The
header (8 bytes of length and the JSON) is one group of its own. Any other file is cut every ``MAX_CHUNK``
bytes.

Grouping starts anew at every tensor whose size alone would overflow the group, so one changed tensor
changes one chunk only.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

MAX_CHUNK = 16 * 1024 * 1024
HEADER_LENGTH_BYTES = 8
MAX_HEADER = 100 * 1024 * 1024
"""safetensors' own bound on its header."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a safetensors file: its bytes [begin, end) in the file."""

    name: str
    dtype: str
    elements: int
    begin: int
    end: int


def parse_header(header: bytes, file_size: int) -> tuple[Tensor, ...]:
    """The tensors, in file order, from a safetensors file's first bytes (length and JSON).

    Raises ValueError when the header is not one of ``file_size`` bytes that the tensors tile.
    """
    try:
        entries = json.loads(header[HEADER_LENGTH_BYTES:])
        tensors = sorted(_tensors(entries, len(header)), key=lambda tensor: (tensor.begin, tensor.end))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"the safetensors header cannot be read: {error!r}") from error
    position = len(header)
    for tensor in tensors:
        if tensor.begin != position or tensor.end < tensor.begin:
            raise ValueError(f"tensor {tensor.name} does not start where the one before it ends")
        position = tensor.end
    if position != file_size:
        raise ValueError(f"the tensors end at byte {position}, the file at byte {file_size}")
    return tuple(tensors)


def _tensors(entries: dict[str, dict[str, Any]], data_begin: int) -> Iterator[Tensor]:
    for name, entry in entries.items():
        if name != "__metadata__":
            begin, end = _naturals(entry["data_offsets"])
            elements = prod(_naturals(entry["shape"]))
            yield Tensor(name, str(entry["dtype"]), elements, data_begin + begin, data_begin + end)


def _naturals(values: list[Any]) -> list[int]:
    if any(type(value) is not int or value < 0 for value in values):
        raise ValueError(f"{values} are not natural numbers")
    return values


def cut_plain(size: int) -> tuple[int, ...]:
    """Lengths of the chunks of a file of ``size`` bytes; none for an empty file."""
    return tuple(_split(size))


def cut_tensors(header_size: int, tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """Lengths of the chunks of a safetensors file, in file order."""
    lengths = list(_split(header_size))
    group = 0
    for tensor in tensors:
        size = tensor.end - tensor.begin
        if group + size > MAX_CHUNK:
            lengths += [group] if group else []
            group = 0
        if size > MAX_CHUNK:
            lengths += _split(size)
        else:
            group += size
    return tuple(lengths + ([group] if group else []))


def _split(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, MAX_CHUNK)
        size -= MAX_CHUNK
