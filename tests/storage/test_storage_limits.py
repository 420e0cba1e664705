"""Sizes around the limits of chunks, packs and ranges, made small; what is not whole is told with digests."""

from pathlib import Path
from random import Random

import pytest

from baseload_storage.core.manifest import READY, digest_of
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.errors import SnapshotCorruptError
from baseload_storage.restore import restore
from support.snapshots import SMALL, TENSORS, Place, tree, write_weights

pytestmark = pytest.mark.store

CHUNK = 1000
PACK = 3000
RANGE = 2500
SIZES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, PACK - 1, PACK, PACK + 1, 2 * PACK + CHUNK + 1)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files of all ``SIZES``; chunks, packs and ranges are small."""
    monkeypatch.setattr("baseload_storage.core.chunks.MAX_CHUNK", CHUNK)
    monkeypatch.setattr("baseload_storage.uploading.PACK_SIZE", PACK)
    monkeypatch.setattr("baseload_storage.core.plan.MAX_RANGE", RANGE)
    folder = tmp_path / "plain"
    folder.mkdir()
    for size in SIZES:
        (folder / f"{size:05}").write_bytes(Random(size).randbytes(size))
    return folder


def test_files_around_every_limit_come_back(place: Place, plain: Path, tmp_path: Path) -> None:
    result = place.store.push_folder(plain, "llm")
    assert result.bytes_uploaded == result.bytes_total == sum(SIZES)
    shown = place.store.show(SnapshotRef.parse(f"{place.url}/llm"))
    assert [len(file.chunks) for file in shown.files] == [-(-size // CHUNK) for size in SIZES]
    restored = restore(f"{place.url}/llm", tmp_path / "out", place.settings)
    assert restored.bytes_read == sum(SIZES)
    found = tree(tmp_path / "out")
    del found[READY]
    assert found == tree(plain)


def test_packs_are_filled_up_to_the_limit_and_named_by_what_they_hold(place: Place, plain: Path) -> None:
    place.store.push_folder(plain, "llm")
    packs = {key: place.read(key) for key in place.held("packs/")}
    assert all(key == f"packs/{digest_of(data).removeprefix('blake3:')}" for key, data in packs.items())
    assert max(len(data) for data in packs.values()) == PACK
    # A pack is closed only when the next chunk does not fit, so two neighbours hold more than one limit.
    assert len(packs) <= 2 * sum(SIZES) / PACK + 1


def test_a_second_push_over_many_packs_uploads_nothing(place: Place, plain: Path) -> None:
    first = place.store.push_folder(plain, "llm")
    again = place.store.push_folder(plain, "llm")
    assert (again.digest, again.bytes_uploaded, again.already_there) == (first.digest, 0, True)
    (plain / "00001").write_bytes(b"\x00")
    assert place.store.push_folder(plain, "llm", "next").bytes_uploaded == 1


def test_tensors_larger_than_a_chunk_come_back_and_a_changed_one_is_sent_alone(
    place: Place, plain: Path, tmp_path: Path
) -> None:
    write_weights(plain / "model.safetensors")
    place.store.push_folder(plain, "llm", "v1")
    write_weights(plain / "model.safetensors", changed=TENSORS // 2)
    second = place.store.push_folder(plain, "llm", "v2")
    assert second.bytes_uploaded == SMALL
    restore(f"{place.url}/llm:v2", tmp_path / "out", place.settings)
    restored = (tmp_path / "out" / "model.safetensors").read_bytes()
    assert restored == (plain / "model.safetensors").read_bytes()


def test_one_flipped_bit_in_one_of_many_packs_is_told_with_pack_place_and_digests(
    place: Place, plain: Path, tmp_path: Path
) -> None:
    place.store.push_folder(plain, "llm")
    shown = place.store.show(SnapshotRef.parse(f"{place.url}/llm"))
    chunk = shown.files[-1].chunks[2]
    key = f"packs/{chunk.pack.removeprefix('blake3:')}"
    data = bytearray(place.read(key))
    data[chunk.offset + chunk.length - 1] ^= 1
    place.write(key, bytes(data))
    with pytest.raises(SnapshotCorruptError) as caught:
        restore(f"{place.url}/llm", tmp_path / "node" / "out", place.settings)
    spoilt = digest_of(data[chunk.offset : chunk.offset + chunk.length])
    for told in (f"{place.url}/{key}", f"at {chunk.offset} ", chunk.digest, spoilt):
        assert told in str(caught.value)
    assert {path.name for path in (tmp_path / "node").iterdir()} == {".out.lock"}


def test_an_interrupt_in_the_progress_callback_leaves_nothing(
    place: Place, plain: Path, tmp_path: Path
) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    place.store.push_folder(plain, "llm")
    with pytest.raises(KeyboardInterrupt):
        restore(f"{place.url}/llm", tmp_path / "node" / "out", place.settings, progress=interrupt)
    assert {path.name for path in (tmp_path / "node").iterdir()} == {".out.lock"}
    assert not restore(f"{place.url}/llm", tmp_path / "node" / "out", place.settings).already_there
