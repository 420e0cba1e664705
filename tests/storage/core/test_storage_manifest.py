"""Manifests: one content has one encoding, and nothing that could do harm is accepted."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_storage.core import manifest as subject
from baseload_storage.core.chunks import MAX_CHUNK
from baseload_storage.core.manifest import (
    EMPTY,
    READY,
    Chunk,
    File,
    Manifest,
    WarmedWith,
    decode,
    digest_of,
    path_fault,
)

ONE = digest_of(b"one")
TWO = digest_of(b"two")


def file(path: str = "a", chunks: int = 1, **changes: Any) -> dict[str, Any]:
    """A file of ``chunks`` chunks of 3 bytes, as JSON has it."""
    part = {"digest": ONE, "length": 3, "pack": TWO, "offset": 0}
    whole = {0: EMPTY, 1: ONE}.get(chunks, TWO)
    return {
        "path": path,
        "mode": 0o644,
        "size": 3 * chunks,
        "digest": whole,
        "chunks": [part] * chunks,
        **changes,
    }


def manifest(*files: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "origin": "folder",
        "dtype": None,
        "parameters": None,
        "licence": None,
        "warmed_with": None,
        "files": list(files),
        **changes,
    }


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def refused(value: object, told: str) -> None:
    data = canonical(value)
    with pytest.raises(ValueError, match=told):
        decode(data, digest_of(data))


parts = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\"), min_size=1, max_size=8
)
paths = st.lists(parts, min_size=1, max_size=3).map("/".join).filter(lambda path: path_fault(path) is None)
digests = st.binary(max_size=4).map(digest_of)
chunks = st.builds(
    Chunk,
    digest=digests,
    length=st.integers(1, MAX_CHUNK),
    pack=digests,
    offset=st.integers(0, 1 << 40),
)


@st.composite
def files(draw: st.DrawFn, path: str) -> File:
    held = tuple(draw(st.lists(chunks, max_size=4)))
    whole = {0: EMPTY, 1: held[0].digest if held else EMPTY}.get(len(held)) or draw(digests)
    return File(
        path=path,
        mode=draw(st.sampled_from([0o644, 0o755])),
        size=sum(chunk.length for chunk in held),
        digest=whole,
        chunks=held,
    )


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    names = draw(st.sets(paths, min_size=1, max_size=5))
    kept = sorted(path for path in names if not any(other.startswith(f"{path}/") for other in names))
    return Manifest(
        origin=draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=20)),
        dtype=draw(st.none() | st.just("BF16")),
        parameters=draw(st.none() | st.integers(0, 1 << 45)),
        licence=draw(st.none() | st.just("LICENSE")),
        warmed_with=draw(st.none() | st.just(WarmedWith(engine="vllm", version="0.28.0"))),
        files=tuple(draw(files(path)) for path in kept),
    )


@given(manifests())
def test_a_manifest_survives_the_round_trip(made: Manifest) -> None:
    data = made.encode()
    assert decode(data, digest_of(data)) == made
    assert decode(data, digest_of(data)).encode() == data
    assert made.size == sum(each.size for each in made.files)


@given(manifests(), st.data())
def test_any_change_of_a_byte_is_noticed(made: Manifest, data: st.DataObject) -> None:
    good = made.encode()
    bad = bytearray(good)
    bad[data.draw(st.integers(0, len(good) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="its bytes have digest"):
        decode(bytes(bad), digest_of(good))


def test_the_canonical_bytes_are_those_of_the_documentation() -> None:
    made = Manifest(origin="folder", files=(File(path="empty", mode=0o644, size=0, digest=EMPTY, chunks=()),))
    assert made.encode() == canonical(manifest(file("empty", 0)))
    assert canonical(manifest(file("empty", 0))) == (
        b'{"dtype":null,"files":[{"chunks":[],"digest":"blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7'
        b'cc9a93cae41f3262","mode":420,"path":"empty","size":0}],"format":1,"licence":null,"origin":"folder",'
        b'"parameters":null,"warmed_with":null}'
    )


def test_a_plain_manifest_is_accepted() -> None:
    data = canonical(manifest(file("a", 2), file("b/c", 1), file("b/d", 0)))
    assert [each.path for each in decode(data, digest_of(data)).files] == ["a", "b/c", "b/d"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/etc/passwd", "leaves the folder"),
        ("..", "leaves the folder"),
        ("a/../../b", "leaves the folder"),
        ("./a", "leaves the folder"),
        ("a//b", "leaves the folder"),
        ("a/", "leaves the folder"),
        ("", "leaves the folder"),
        ("a\\..\\b", "backslash"),
        ("a\x00b", "control"),
        ("a\nb", "control"),
        ("a" * 256, "too long"),
        ("é" * 128, "too long"),
        ("/".join(["a" * 100] * 11), "too long"),
        (READY, "marker"),
        (f"{READY}/x", "marker"),
    ],
)
def test_a_path_that_could_do_harm_is_refused(path: str, told: str) -> None:
    refused(manifest(file(path)), told)


def test_a_path_of_bytes_that_are_no_text_is_told() -> None:
    assert "UTF-8" in str(path_fault("a\udcff"))


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ((), "files"),
        ((file("a"), file("a")), "twice"),
        ((file("b"), file("a")), "not in order"),
        ((file("a"), file("a/b")), "a file and a folder"),
        ((file("a"), file("a-b"), file("a/b/c")), "a file and a folder"),
        ((file("a", size=4),), "hold 3 bytes"),
        ((file("a", size=2),), "hold 3 bytes"),
        ((file("a", 0, size=1),), "hold 0 bytes"),
        ((file("a", digest=TWO),), "not that of its only chunk"),
        ((file("a", 0, digest=TWO),), "not that of its only chunk"),
        ((file("a", mode=0o4755),), "mode"),
        ((file("a", digest="sha256:00"),), "digest"),
        ((file("a", digest=ONE.upper()),), "digest"),
        ((file("a", link="b"),), "link"),
    ],
)
def test_files_that_contradict_each_other_are_refused(files: tuple[dict[str, Any], ...], told: str) -> None:
    refused(manifest(*files), told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"length": 0}, "length"),
        ({"length": -1}, "length"),
        ({"length": MAX_CHUNK + 1}, "length"),
        ({"length": "3"}, "length"),
        ({"offset": -1}, "offset"),
        ({"offset": 1 << 43}, "offset"),
        ({"pack": "../../other"}, "pack"),
    ],
)
def test_a_chunk_out_of_bounds_is_refused(changes: dict[str, Any], told: str) -> None:
    good = file()
    refused(manifest({**good, "chunks": [{**good["chunks"][0], **changes}]}), told)


@pytest.mark.parametrize(
    "changes",
    [{"format": 2}, {"origin": None}, {"parameters": -1}, {"warmed_with": {}}, {"new": 1}],
)
def test_an_unknown_format_or_field_is_refused(changes: dict[str, Any]) -> None:
    refused(manifest(file(), **changes), next(iter(changes)))


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(manifest(file())).encode(),
        canonical(manifest(file())) + b"\n",
        canonical(manifest(file(), format=True)),
        canonical(manifest(file())).replace(b'{"dtype":null,', b"{"),
        canonical(manifest(file())).replace(b'{"dtype":null,', b'{"dtype":"F8","dtype":null,'),
    ],
)
def test_another_spelling_of_the_same_content_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="canonical"):
        decode(data, digest_of(data))


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[]", b"null", b"[" * 100_000])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="manifest: "):
        decode(data, digest_of(data))


def test_more_files_than_allowed_are_refused() -> None:
    refused(manifest(*(file(f"{number:06}", 0) for number in range(subject.MAX_FILES + 1))), "files: ")


def test_more_chunks_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_CHUNKS", 3)
    refused(manifest(file("a", 2), file("b", 2)), "more than 3 chunks")
