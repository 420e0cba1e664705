"""The range planner: everything is fetched once, in ranges of bounded size, and lands where it belongs."""

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from baseload_storage.core.chunks import MAX_CHUNK
from baseload_storage.core.manifest import Chunk, File, digest_of
from baseload_storage.core.plan import MAX_RANGE, plan_reads

PACKS = {digest_of(name): name for name in (b"first", b"second")}
lengths = st.sampled_from([1, 5, MAX_CHUNK // 2, MAX_CHUNK - 1, MAX_CHUNK])


@st.composite
def stored(draw: st.DrawFn) -> list[Chunk]:
    """Chunks that lie one after another in two packs, each with a digest of its own."""
    found = []
    for pack, name in PACKS.items():
        sizes = draw(st.lists(lengths, max_size=8))
        for number, (size, end) in enumerate(zip(sizes, accumulate(sizes), strict=True)):
            digest = digest_of(name + bytes([number]))
            found.append(Chunk(digest=digest, length=size, pack=pack, offset=end - size))
    return found


@st.composite
def trees(draw: st.DrawFn) -> list[File]:
    """Files of any chunks in any order, some several times."""
    held = draw(stored())
    several = st.lists(st.sampled_from(held), max_size=6) if held else st.just([])
    return [_file(number, chunks) for number, chunks in enumerate(draw(st.lists(several, max_size=4)))]


def _file(number: int, chunks: list[Chunk]) -> File:
    whole = chunks[0].digest if len(chunks) == 1 else digest_of(b"" if not chunks else b"whole")
    size = sum(chunk.length for chunk in chunks)
    return File(path=f"f{number}", mode=0o644, size=size, digest=whole, chunks=tuple(chunks))


@given(trees())
def test_each_place_gets_its_chunk_exactly_once(files: list[File]) -> None:
    wanted = {}
    for number, file in enumerate(files):
        offset = 0
        for chunk in file.chunks:
            wanted[number, offset] = chunk
            offset += chunk.length
    got = [
        ((place.file, place.offset), piece.chunk)
        for read in plan_reads(files)
        for piece in read.pieces
        for place in piece.places
    ]
    assert dict(got) == wanted
    assert len(got) == len(wanted)


@given(trees())
def test_ranges_are_bounded_and_hold_their_pieces_without_a_gap(files: list[File]) -> None:
    for read in plan_reads(files):
        assert 0 < read.length <= MAX_RANGE
        position = read.offset
        for piece in read.pieces:
            assert (piece.chunk.pack, piece.chunk.offset) == (read.pack, position)
            position += piece.chunk.length
        assert position == read.offset + read.length


@given(trees())
def test_no_byte_is_fetched_twice(files: list[File]) -> None:
    distinct = {(chunk.pack, chunk.offset): chunk.length for file in files for chunk in file.chunks}
    assert sum(read.length for read in plan_reads(files)) == sum(distinct.values())


@given(trees())
def test_no_two_ranges_could_have_been_one(files: list[File]) -> None:
    reads = plan_reads(files)
    for before, after in pairwise(reads):
        touches = before.pack == after.pack and before.offset + before.length == after.offset
        assert not touches or before.length + after.pieces[0].chunk.length > MAX_RANGE


def test_nothing_to_fetch_needs_no_read() -> None:
    assert plan_reads([_file(0, [])]) == ()
