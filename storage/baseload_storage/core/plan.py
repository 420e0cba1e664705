"""Which bytes to ask the store for, and where they go.

Theory of operation. A ranged GET costs a round trip, and a store serves one in parallel with others. So
neighbouring chunks of a pack are fetched by one GET of up to ``MAX_RANGE`` bytes, and several GETs run at
once. A chunk that several files share is fetched once and written to each of its places.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from baseload_storage.core.manifest import Chunk, File

MAX_RANGE = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Place:
    """``offset`` bytes into the file number ``file`` of the manifest."""

    file: int
    offset: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One chunk of a range and all its places."""

    chunk: Chunk
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class RangeRead:
    """``length`` bytes at ``offset`` of ``pack``: its pieces follow each other without a gap."""

    pack: str
    offset: int
    length: int
    pieces: tuple[Piece, ...]


def plan_reads(files: Iterable[File]) -> tuple[RangeRead, ...]:
    """The GETs that fetch every chunk of ``files`` once, ordered by pack and offset."""
    places = _places(files)
    ordered = sorted(places, key=lambda chunk: (chunk.pack, chunk.offset))
    return tuple(_joined([Piece(chunk, tuple(places[chunk])) for chunk in ordered]))


def _places(files: Iterable[File]) -> dict[Chunk, list[Place]]:
    places: dict[Chunk, list[Place]] = {}
    for number, file in enumerate(files):
        offset = 0
        for chunk in file.chunks:
            places.setdefault(chunk, []).append(Place(number, offset))
            offset += chunk.length
    return places


def _joined(pieces: list[Piece]) -> Iterator[RangeRead]:
    run: list[Piece] = []
    for piece in pieces:
        if run and not _continues(run, piece):
            yield _range(run)
            run = []
        run.append(piece)
    if run:
        yield _range(run)


def _continues(run: list[Piece], piece: Piece) -> bool:
    first, last = run[0].chunk, run[-1].chunk
    touches = piece.chunk.pack == last.pack and piece.chunk.offset == last.offset + last.length
    return touches and piece.chunk.offset + piece.chunk.length - first.offset <= MAX_RANGE


def _range(run: list[Piece]) -> RangeRead:
    first = run[0].chunk
    return RangeRead(first.pack, first.offset, sum(piece.chunk.length for piece in run), tuple(run))
