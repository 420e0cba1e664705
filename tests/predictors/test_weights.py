"""Where the predictor gets its weights, and what stays when it may not have them."""

import time
from pathlib import Path
from threading import Event

import pytest

from baseload_predictors.errors import StartError
from baseload_predictors.main import read_settings
from baseload_predictors.timeline import Timeline
from baseload_predictors.weights import RestoreStoppedError, model_folder
from baseload_storage.snapshots import SnapshotStore
from support.seaweed import StoreAddress


def pushed(store: StoreAddress, folder: Path) -> str:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    url = store.new_url()
    SnapshotStore.open(url, store.settings()).push_folder(folder, "tiny")
    return f"{url}/tiny"


@pytest.fixture
def environment(object_store: StoreAddress, monkeypatch: pytest.MonkeyPatch) -> StoreAddress:
    """The variables that a replica finds in its container."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", object_store.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", object_store.secret_key)
    return object_store


def take(*flags: str, stopping: Event | None = None) -> Path:
    return model_folder(read_settings(list(flags)), Timeline(time.monotonic()), stopping or Event())


def test_a_folder_with_a_model_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert take(f"--model-dir={tmp_path}") == tmp_path


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=f"--model-dir {tmp_path}: holds no model"):
        take(f"--model-dir={tmp_path}")


@pytest.mark.store
def test_a_snapshot_is_restored_into_the_folder(environment: StoreAddress, tmp_path: Path) -> None:
    ref = pushed(environment, tmp_path / "source")
    assert take(f"--snapshot={ref}", f"--model-dir={tmp_path / 'model'}") == tmp_path / "model"
    assert (tmp_path / "model" / "config.json").read_text() == "{}"


@pytest.mark.store
def test_a_missing_snapshot_and_a_wrong_secret_stop_the_start(
    environment: StoreAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = pushed(environment, tmp_path / "source")
    with pytest.raises(StartError, match="there is no snapshot"):
        take(f"--snapshot={ref}:prod", f"--model-dir={tmp_path / 'model'}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StartError, match="AWS_SECRET_ACCESS_KEY"):
        take(f"--snapshot={ref}", f"--model-dir={tmp_path / 'model'}")
    assert not (tmp_path / "model").exists()


@pytest.mark.store
def test_a_stop_ends_the_restore_and_leaves_nothing(environment: StoreAddress, tmp_path: Path) -> None:
    ref = pushed(environment, tmp_path / "source")
    stopping = Event()
    stopping.set()
    (tmp_path / "models").mkdir()
    with pytest.raises(RestoreStoppedError):
        take(f"--snapshot={ref}", f"--model-dir={tmp_path / 'models' / 'tiny'}", stopping=stopping)
    left = [path.name for path in (tmp_path / "models").iterdir()]
    assert [name for name in left if not name.endswith(".lock")] == []
