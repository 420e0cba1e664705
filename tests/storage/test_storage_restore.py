"""Restore, against a real store: what was pushed comes back bit by bit, or nothing comes at all."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baseload_storage.core.manifest import READY, digest_of
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.errors import (
    AccessDeniedError,
    BucketMissingError,
    ReferenceInvalidError,
    SnapshotCorruptError,
    SnapshotIncompleteError,
    SnapshotMissingError,
    StorageError,
    StoreUnreachableError,
    TargetUnusableError,
)
from baseload_storage.restore import RestoreResult, restore
from support.seaweed import StoreAddress
from support.snapshots import LARGE, Place, tree, write_weights

pytestmark = pytest.mark.store

RESTORE = """
import sys, time
from pathlib import Path
from baseload_storage.restore import restore

def slowly(done, total):
    print("arrived", done, flush=True)
    time.sleep(float(sys.argv[3]))

print(restore(sys.argv[1], Path(sys.argv[2]), progress=slowly).already_there)
"""


def restore_in_a_process(place: Place, ref: str, target: Path, pause: float = 0.0) -> "subprocess.Popen[str]":
    """``restore`` by a process of its own, which says a line for each chunk and then pauses for seconds."""
    address = place.address
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    keys = {
        "AWS_ENDPOINT_URL": address.endpoint_url,
        "AWS_ACCESS_KEY_ID": address.access_key,
        "AWS_SECRET_ACCESS_KEY": address.secret_key,
    }
    arguments = (sys.executable, "-c", RESTORE, ref, str(target), str(pause))
    return subprocess.Popen(
        arguments, env={**env, **keys}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "node" / "llm"


@pytest.fixture
def pushed(place: Place, model: Path) -> str:
    """The reference of a snapshot of ``model``."""
    place.store.push_folder(model, "llm")
    return f"{place.url}/llm"


@pytest.fixture
def many_files(place: Place, tmp_path: Path) -> str:
    """A snapshot of 300 chunks, so that a restore can be met in its midst."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number:03}").write_text(f"file {number}")
    place.store.push_folder(folder, "many")
    return f"{place.url}/many"


def left_beside(target: Path) -> set[str]:
    """What lies beside the target; the lock, which has no content, stays."""
    return {path.name for path in target.parent.iterdir()} - {f".{target.name}.lock"}


def test_every_file_comes_back_bit_by_bit(place: Place, model: Path, target: Path) -> None:
    write_weights(model / "model.safetensors", LARGE)
    place.store.push_folder(model, "llm")
    result = restore(f"{place.url}/llm", target, place.settings)
    restored = tree(target)
    assert restored.pop(READY)[1].decode() == result.digest
    assert restored == tree(model)
    assert restored["empty.txt"] == (0o644, b"")
    assert restored["run.sh"][0] == 0o755
    assert not result.already_there
    assert left_beside(target) == {"llm"}


def test_a_snapshot_of_empty_files_only_comes_back(place: Place, tmp_path: Path, target: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "empty").touch()
    place.store.push_folder(tmp_path / "model", "llm")
    assert place.held("packs/") == []
    result = restore(f"{place.url}/llm", target, place.settings)
    assert (result.already_there, result.bytes_read) == (False, 0)
    assert (target / "empty").read_bytes() == b""


def test_a_second_restore_reads_nothing(place: Place, pushed: str, target: Path) -> None:
    first = restore(pushed, target, place.settings)
    again = restore(pushed, target, place.settings)
    assert (again.digest, again.bytes_read, again.already_there) == (first.digest, 0, True)


def test_a_pinned_digest_that_is_there_needs_no_store(place: Place, pushed: str, target: Path) -> None:
    first = restore(pushed, target, place.settings)
    nowhere = place.settings.model_copy(update={"endpoint_url": "http://127.0.0.1:9"})
    assert restore(f"{pushed}@{first.digest}", target, nowhere).already_there


def test_a_moved_tag_replaces_the_folder_and_a_pin_stays(
    place: Place, model: Path, pushed: str, target: Path, tmp_path: Path
) -> None:
    old = restore(pushed, target, place.settings)
    before = tree(model)
    write_weights(model / "model.safetensors", changed=0)
    (model / "run.sh").unlink()
    new = place.store.push_folder(model, "llm")
    assert restore(pushed, target, place.settings).digest == new.digest != old.digest
    assert set(tree(target)) == {*tree(model), READY}
    restore(f"{pushed}@{old.digest}", tmp_path / "pinned", place.settings)
    pinned = tree(tmp_path / "pinned")
    del pinned[READY]
    assert pinned == before
    assert left_beside(target) == {"llm"}


def test_a_model_whose_name_begins_alike_is_not_mixed_in(place: Place, model: Path, target: Path) -> None:
    place.store.push_folder(model, "llm")
    (model / "only-in-hf.txt").write_text("x")
    place.store.push_folder(model, "llm-hf")
    restore(f"{place.url}/llm", target, place.settings)
    assert "only-in-hf.txt" not in tree(target)


def test_a_hub_cache_of_links_comes_back_as_files(
    place: Place, model: Path, tmp_path: Path, target: Path
) -> None:
    cache = tmp_path / "models--org--llm"
    snapshot = cache / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    for name in ("model.safetensors", "config.json"):
        (cache / "blobs" / f"blob-of-{name.split('.')[0]}").write_bytes((model / name).read_bytes())
        (snapshot / name).symlink_to(f"../../blobs/blob-of-{name.split('.')[0]}")
    place.store.push_folder(snapshot, "llm")
    assert place.store.show(SnapshotRef.parse(f"{place.url}/llm")).dtype == "U16"
    restore(f"{place.url}/llm", target, place.settings)
    assert not any(path.is_symlink() for path in target.rglob("*"))
    for name in ("model.safetensors", "config.json"):
        assert (target / name).read_bytes() == (model / name).read_bytes()


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def punch(data: bytes) -> bytes:
    return data[:-4096] + bytes(4096)


@pytest.mark.parametrize("damage", [flip, punch, lambda data: data[:-1], lambda data: data[:1000]])
def test_a_spoilt_pack_is_refused_and_leaves_nothing(
    place: Place, pushed: str, target: Path, damage: Callable[[bytes], bytes]
) -> None:
    pack = place.held("packs/")[0]
    place.write(pack, damage(place.read(pack)))
    with pytest.raises(SnapshotCorruptError, match=pack):
        restore(pushed, target, place.settings)
    assert left_beside(target) == set()


def test_a_missing_pack_is_named_and_leaves_nothing(place: Place, pushed: str, target: Path) -> None:
    pack = place.held("packs/")[0]
    place.delete(pack)
    with pytest.raises(SnapshotIncompleteError, match=pack):
        restore(pushed, target, place.settings)
    assert left_beside(target) == set()


def test_a_failed_update_keeps_the_folder_as_it_was(
    place: Place, model: Path, pushed: str, target: Path
) -> None:
    old = restore(pushed, target, place.settings)
    before, packs = tree(target), set(place.held("packs/"))
    write_weights(model / "model.safetensors", changed=0)
    place.store.push_folder(model, "llm")
    for pack in set(place.held("packs/")) - packs:
        place.delete(pack)
    with pytest.raises(SnapshotIncompleteError):
        restore(pushed, target, place.settings)
    assert tree(target) == before
    assert restore(f"{pushed}@{old.digest}", target, place.settings).already_there


def test_a_corrupt_manifest_or_tag_is_told(place: Place, pushed: str, target: Path) -> None:
    manifest = place.held("manifests/")[0]
    place.write(manifest, place.read(manifest).replace(b"run.sh", b"ran.sh"))
    with pytest.raises(SnapshotCorruptError, match="its bytes have digest"):
        restore(pushed, target, place.settings)
    for content in (b"", b"{}", b'{"digest":"latest"}', b"x" * 10_000):
        place.write("tags/llm/latest", content)
        with pytest.raises(SnapshotCorruptError, match="llm"):
            restore(pushed, target, place.settings)
    assert not target.exists()


@pytest.mark.parametrize("path", ["../escaped", "/baseload-escaped", "a/../../escaped", READY])
def test_a_manifest_that_would_write_elsewhere_is_refused(
    place: Place, pushed: str, target: Path, path: str
) -> None:
    manifest = place.read(place.held("manifests/")[0]).replace(b'"run.sh"', f'"{path}"'.encode())
    digest = digest_of(manifest)
    place.write(f"manifests/{digest.removeprefix('blake3:')}", manifest)
    place.write("tags/evil/latest", f'{{"digest":"{digest}"}}'.encode())
    with pytest.raises(SnapshotCorruptError, match="path"):
        restore(f"{place.url}/evil", target, place.settings)
    assert not Path("/baseload-escaped").exists()
    assert left_beside(target) == set()


def test_a_manifest_whose_file_digest_is_wrong_is_refused(place: Place, pushed: str, target: Path) -> None:
    good = place.store.show(SnapshotRef.parse(pushed))
    files = [
        file.model_copy(update={"digest": digest_of(b"x")}) if len(file.chunks) > 1 else file
        for file in good.files
    ]
    manifest = good.model_copy(update={"files": tuple(files)}).encode()
    digest = digest_of(manifest)
    place.write(f"manifests/{digest.removeprefix('blake3:')}", manifest)
    with pytest.raises(SnapshotCorruptError, match=r"model\.safetensors has digest"):
        restore(f"{pushed}@{digest}", target, place.settings)
    assert left_beside(target) == set()


def test_what_is_missing_or_misnamed_is_told_and_makes_no_folder(
    place: Place, object_store: StoreAddress, pushed: str, target: Path
) -> None:
    wrong_secret = StoreAddress(
        object_store.endpoint_url, object_store.access_key, "wrong", object_store.bucket
    ).settings()
    nowhere = place.settings.model_copy(update={"endpoint_url": "http://127.0.0.1:9"})
    cases: list[tuple[str, Any, type[StorageError], str]] = [
        ("s3:/llm", place.settings, ReferenceInvalidError, "s3:/llm"),
        (f"{pushed}:prod", place.settings, SnapshotMissingError, "llm:latest"),
        (f"{pushed}@{digest_of(b'')}", place.settings, SnapshotMissingError, "no manifest"),
        ("s3://no-such-bucket/llm", place.settings, BucketMissingError, "no-such-bucket"),
        (pushed, wrong_secret, AccessDeniedError, "AWS_SECRET_ACCESS_KEY"),
        (pushed, nowhere, StoreUnreachableError, "http://127.0.0.1:9"),
    ]
    for ref, settings, kind, told in cases:
        with pytest.raises(kind, match=told):
            restore(ref, target, settings)
    assert not target.exists()


def test_a_folder_of_somebody_else_is_not_touched(place: Place, pushed: str, target: Path) -> None:
    target.mkdir(parents=True)
    (target / "thesis.txt").write_text("mine")
    with pytest.raises(TargetUnusableError, match="no restore has put there"):
        restore(pushed, target, place.settings)
    assert set(tree(target)) == {"thesis.txt"}


def test_an_empty_folder_is_taken(place: Place, pushed: str, target: Path) -> None:
    target.mkdir(parents=True)
    assert not restore(pushed, target, place.settings).already_there


def test_a_target_that_cannot_be_made_is_told(place: Place, pushed: str, target: Path) -> None:
    target.parent.write_text("a file where a folder should be")
    with pytest.raises(TargetUnusableError, match=str(target)):
        restore(pushed, target, place.settings)
    target.parent.unlink()
    target.parent.mkdir()
    target.write_text("a file where the model should be")
    with pytest.raises(TargetUnusableError, match="Not a directory"):
        restore(pushed, target, place.settings)


def test_a_full_disk_is_told_and_leaves_nothing(
    place: Place, pushed: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(TargetUnusableError, match="free some space"):
        restore(pushed, target, place.settings)
    assert left_beside(target) == set()


def test_a_folder_that_cannot_be_swapped_in_leaves_the_old_one(
    place: Place, model: Path, pushed: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore(pushed, target, place.settings)
    before = tree(target)
    (model / "run.sh").unlink()
    place.store.push_folder(model, "llm")
    rename = Path.rename

    def fail_for_the_new(path: Path, to: Path) -> Path:
        if path.name.endswith(".part"):
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", fail_for_the_new)
    with pytest.raises(TargetUnusableError, match="busy"):
        restore(pushed, target, place.settings)
    assert tree(target) == before
    assert left_beside(target) == {"llm"}


def test_progress_ends_at_all_bytes(place: Place, pushed: str, target: Path, model: Path) -> None:
    seen: list[tuple[int, int]] = []
    result: RestoreResult = restore(
        pushed, target, place.settings, progress=lambda done, total: seen.append((done, total))
    )
    total = sum(len(data) for _, data in tree(model).values())
    assert seen == sorted(seen)
    assert seen[-1] == (total, total)
    assert result.bytes_read == total


def test_ctrl_c_leaves_nothing(place: Place, many_files: str, target: Path) -> None:
    process = restore_in_a_process(place, many_files, target, pause=0.05)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("arrived")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in told
    assert left_beside(target) == set()


def test_a_killed_restore_shows_nothing_and_the_next_one_cleans_up(
    place: Place, many_files: str, target: Path
) -> None:
    process = restore_in_a_process(place, many_files, target, pause=0.05)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("arrived")
    process.kill()
    process.communicate(timeout=60)
    assert left_beside(target) == {".llm.part"}
    assert not (target.parent / ".llm.part" / READY).exists()
    assert not restore(many_files, target, place.settings).already_there
    assert left_beside(target) == {"llm"}
    assert len(tree(target)) == 301


def test_two_processes_may_restore_one_target(place: Place, many_files: str, target: Path) -> None:
    processes = [restore_in_a_process(place, many_files, target) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert sorted(out.splitlines()[-1] for out, _ in outputs) == ["False", "True"]
    assert len(tree(target)) == 301
    assert left_beside(target) == {"llm"}


def test_a_neighbour_with_a_longer_name_is_left_alone(place: Place, many_files: str, target: Path) -> None:
    neighbour = restore_in_a_process(place, many_files, target.with_name("llm.v2"), pause=0.01)
    assert neighbour.stdout is not None
    assert neighbour.stdout.readline().startswith("arrived")
    restore(many_files, target, place.settings)
    _, told = neighbour.communicate(timeout=60)
    assert neighbour.returncode == 0, told
    assert left_beside(target) == {"llm", "llm.v2", ".llm.v2.lock"}
