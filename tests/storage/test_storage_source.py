"""What of a folder is taken, and what is refused before anything is uploaded."""

import os
from pathlib import Path

import pytest

from baseload_storage.core.manifest import MAX_CHUNKS, READY
from baseload_storage.errors import SourceInvalidError
from baseload_storage.source import scan


def refused(folder: Path, *told: str) -> None:
    with pytest.raises(SourceInvalidError) as caught:
        scan(folder, allow_pickle=False)
    assert all(word in str(caught.value) for word in told), caught.value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text("{}")
    return made


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "none", str(tmp_path / "none"), "not a folder")


def test_a_file_is_no_folder(folder: Path) -> None:
    refused(folder / "config.json", "not a folder")


def test_a_folder_without_any_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model" / "empty").mkdir(parents=True)
    refused(tmp_path / "model", "holds no file")


def test_files_come_in_the_order_of_their_paths(folder: Path) -> None:
    for name in ("a-b", "a/c", "b"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    assert [each.path for each in scan(folder, allow_pickle=False)] == ["a-b", "a/c", "b", "config.json"]


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "a.pt", "a.pth", "a.pkl", "a.pickle", "a.ckpt", "A.BIN"]
)
def test_pickles_are_refused_unless_allowed(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"weights")
    refused(folder, name, "pickle", "safetensors")
    assert name in [each.path for each in scan(folder, allow_pickle=True)]


def test_a_link_inside_becomes_the_file_it_leads_to(folder: Path) -> None:
    (folder / "other.json").symlink_to("config.json")
    taken = {each.path: each for each in scan(folder, allow_pickle=False)}
    assert taken["other.json"].real == (folder / "config.json").resolve()


def test_a_link_that_leaves_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (folder / "config2.json").symlink_to("../secret")
    refused(folder, "config2.json", "leaves the folder", str(tmp_path / "secret"))


def test_a_link_to_a_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "loop").symlink_to(".")
    refused(folder, "loop", "link to a folder")


@pytest.mark.parametrize("target", ["nowhere", "itself"])
def test_a_link_that_leads_nowhere_is_refused(folder: Path, target: str) -> None:
    (folder / "itself").symlink_to(target)
    refused(folder, "itself", "leads nowhere")


def test_a_pipe_is_refused_and_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    refused(folder, "pipe", "neither a file nor a folder")


def test_the_marker_of_a_restore_is_left_out(folder: Path) -> None:
    (folder / READY).write_text("blake3:0")
    assert [each.path for each in scan(folder, allow_pickle=False)] == ["config.json"]


@pytest.mark.parametrize("name", ["back\\slash", "new\nline", "a" * 250 + "\udcff"])
def test_a_name_that_no_manifest_may_hold_is_refused_before_the_upload(folder: Path, name: str) -> None:
    (folder / name).touch()
    refused(folder, "rename it")


@pytest.mark.parametrize("damage", [b"", b"\x00" * 7, b"\xff" * 100, b"\x02" + b"\x00" * 7 + b"{}x"])
def test_a_safetensors_file_that_is_cut_off_is_refused(folder: Path, damage: bytes) -> None:
    (folder / "model.safetensors").write_bytes(damage)
    refused(folder, "model.safetensors", "safetensors file")


def test_only_the_owners_right_to_execute_is_kept(folder: Path) -> None:
    for name, mode in (("run.sh", 0o700), ("data", 0o606)):
        (folder / name).touch()
        (folder / name).chmod(mode)
    modes = {each.path: each.mode for each in scan(folder, allow_pickle=False)}
    assert (modes["run.sh"], modes["data"]) == (0o755, 0o644)


def test_more_than_a_manifest_can_hold_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_CHUNKS > 1
    monkeypatch.setattr("baseload_storage.source.MAX_FILES", 0)
    refused(folder, "more than a snapshot can")
