"""The state folder and its lock."""

import json
from pathlib import Path

import pytest

from baseload_local.errors import AlreadyRunningError, LocalError
from baseload_local.state import StateFolder, write_json


def test_credentials_are_made_once_and_are_private(tmp_path: Path) -> None:
    state = StateFolder.at(tmp_path)
    assert state.credentials() == state.credentials()
    assert len(state.credentials().secret_key) == 40
    assert (tmp_path / "credentials.json").stat().st_mode & 0o777 == 0o600


def test_two_stacks_cannot_share_a_folder(tmp_path: Path) -> None:
    state = StateFolder.at(tmp_path)
    with state.locked(), pytest.raises(AlreadyRunningError, match="baseload down"), state.locked():
        raise AssertionError("the lock was taken twice")
    with state.locked():
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match="--state"):
        StateFolder.at(tmp_path / "file" / "state").create()


def test_json_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["x.json"]


def test_a_clean_stop_leaves_no_record(tmp_path: Path) -> None:
    state = StateFolder.at(tmp_path)
    assert state.read_stack() is None
    state.write_stack({"processes": []})
    assert state.read_stack() == {"processes": []}
    state.forget_stack()
    state.forget_stack()
    assert state.read_stack() is None
