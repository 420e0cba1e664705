"""Cutting: chunks tile the file, follow the tensors, and do not move with the header."""

import json

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from baseload_storage.core.chunks import MAX_CHUNK, Tensor, cut_plain, cut_tensors, parse_header

MIB = 1024 * 1024
sizes = st.integers(0, 5 * MAX_CHUNK) | st.sampled_from([0, 1, MAX_CHUNK - 1, MAX_CHUNK, MAX_CHUNK + 1])


def lay_out(header: int, lengths: list[int]) -> list[Tensor]:
    tensors, position = [], header
    for number, length in enumerate(lengths):
        tensors.append(Tensor(f"t{number}", "BF16", length // 2, position, position + length))
        position += length
    return tensors


def edges(lengths: tuple[int, ...]) -> set[int]:
    """Where chunks begin and end."""
    found, position = {0}, 0
    for length in lengths:
        position += length
        found.add(position)
    return found


@given(sizes)
def test_plain_files_are_tiled_by_whole_chunks_and_a_rest(size: int) -> None:
    lengths = cut_plain(size)
    assert sum(lengths) == size
    assert all(length == MAX_CHUNK for length in lengths[:-1])
    assert all(0 < length <= MAX_CHUNK for length in lengths)


@given(st.integers(8, MAX_CHUNK + 5), st.lists(sizes, max_size=12))
def test_tensor_chunks_tile_the_file_and_respect_tensors(header: int, lengths: list[int]) -> None:
    tensors = lay_out(header, lengths)
    chunks = cut_tensors(header, tensors)
    assert sum(chunks) == header + sum(lengths)
    assert all(0 < chunk <= MAX_CHUNK for chunk in chunks)
    boundaries = edges(chunks)
    assert header in boundaries
    for tensor in tensors:
        if tensor.end - tensor.begin > MAX_CHUNK:
            assert {tensor.begin, tensor.end} <= boundaries
        else:
            assert not any(tensor.begin < edge < tensor.end for edge in boundaries)


@given(st.integers(8, 2 * MIB), st.integers(8, 2 * MIB), st.lists(sizes, max_size=8))
def test_a_longer_header_moves_no_chunk_of_the_tensors(one: int, two: int, lengths: list[int]) -> None:
    assert cut_tensors(one, lay_out(one, lengths))[1:] == cut_tensors(two, lay_out(two, lengths))[1:]


def test_small_tensors_share_a_chunk() -> None:
    lengths = [MIB] * 16 + [1] + [MAX_CHUNK + 1] + [5]
    assert cut_tensors(100, lay_out(100, lengths)) == (100, 16 * MIB, 1, MAX_CHUNK, 1, 5)


def test_a_file_written_by_safetensors_is_read_in_file_order() -> None:
    data = save(
        {
            "b": numpy.zeros((2, 3), numpy.float32),
            "a": numpy.zeros(0, numpy.int8),
            "c": numpy.ones(5, numpy.int8),
        },
        metadata={"format": "pt"},
    )
    header = data[: 8 + int.from_bytes(data[:8], "little")]
    tensors = parse_header(header, len(data))
    assert {(each.name, each.dtype, each.elements) for each in tensors} == {
        ("a", "I8", 0),
        ("b", "F32", 6),
        ("c", "I8", 5),
    }
    assert tensors[0].begin == len(header)
    assert tensors[-1].end == len(data)


def encoded(entries: object) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def tensor(begin: object, end: object, shape: object = (4,), dtype: str = "I8") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    "entries",
    [
        [],
        {"a": []},
        {"a": {"dtype": "I8", "shape": [4]}},
        {"a": tensor(0, "4")},
        {"a": tensor(0, 4.0)},
        {"a": tensor(-4, 4)},
        {"a": tensor(0, 4, shape=[True])},
        {"a": tensor(0, 4, shape=[1.5])},
        {"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 2, 4]}},
    ],
)
def test_a_header_that_is_no_header_is_refused(entries: object) -> None:
    header = encoded(entries)
    with pytest.raises(ValueError, match="header cannot be read"):
        parse_header(header, len(header) + 4)


def test_broken_and_endlessly_nested_json_is_refused() -> None:
    for text in (b"{", b"\xff", b"[" * 200_000):
        with pytest.raises(ValueError, match="header cannot be read"):
            parse_header(len(text).to_bytes(8, "little") + text, 100)


@pytest.mark.parametrize(
    ("entries", "size", "told"),
    [
        ({"a": tensor(0, 4)}, 3, "the file at byte"),
        ({"a": tensor(0, 4)}, 5, "the file at byte"),
        ({"a": tensor(1, 5)}, 5, "tensor a does not start"),
        ({"a": tensor(0, 4), "b": tensor(2, 6)}, 6, "tensor b does not start"),
        ({"a": tensor(4, 0)}, 4, "tensor a does not start"),
        ({"a": tensor(0, 4), "b": tensor(4, 2)}, 4, "tensor b does not start"),
    ],
)
def test_tensors_that_do_not_tile_the_file_are_refused(
    entries: dict[str, object], size: int, told: str
) -> None:
    header = encoded(entries)
    with pytest.raises(ValueError, match=told):
        parse_header(header, len(header) + size)
