"""What a user gets wrong ends in one clear message, a non-zero exit and nothing half done."""

import shutil
import socket
from pathlib import Path

import pytest

from baseload_local.object_store import ObjectStore
from baseload_local.process import free_port
from baseload_local.stack import store_settings
from baseload_local.state import StateFolder
from baseload_storage.core.ref import BucketUrl
from baseload_storage.s3 import Bucket
from baseload_storage.settings import S3Settings
from baseload_storage.snapshots import SnapshotStore
from support.stack import ROOT, baseload


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """A copy of the manifests to spoil."""
    for part in ("base", "overlays"):
        shutil.copytree(ROOT / "manifests" / part, tmp_path / "manifests" / part)
    return tmp_path / "manifests"


def spoil(manifests: Path, file: str, old: str, new: str) -> None:
    path = manifests / file
    text = path.read_text()
    assert old in text, f"{file} no longer holds {old!r}"
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (
            "base/graph.yaml",
            "condition: '@tier:large'",
            "conditoin: '@tier:large'",
            ("conditoin", "condition"),
        ),
        ("base/graph.yaml", "weight: 100", "weight: 90", ("weight", "90", "100")),
        ("base/graph.yaml", "nodeName: small", "nodeName: smal", ("nodeName", "smal", "small")),
        (
            "base/graph.yaml",
            "serviceUrl: http://large-predictor/openai/v1",
            "nodeName: root",
            ("cycle", "root", "large"),
        ),
        ("base/graph.yaml", "http://small-predictor/", "http://smal-predictor/", ("smal-predictor", "small")),
        ("overlays/local/services.yaml", "minReplicas: 1", "minReplicas: 0", ("minReplicas", "0")),
        (
            "overlays/local/services.yaml",
            "--snapshot=s3://baseload/",
            "--snapshot=s3:/baseload/",
            ("name a snapshot",),
        ),
    ],
)
def test_a_wrong_manifest_is_refused_before_anything_starts(
    manifests: Path, tmp_path: Path, file: str, old: str, new: str, told: tuple[str, ...]
) -> None:
    spoil(manifests, file, old, new)
    state = tmp_path / "state"
    refused = baseload(
        "up", str(manifests / "overlays" / "local"), f"--state={state}", f"--port={free_port()}"
    )
    assert refused.returncode == 1
    lines = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert any(all(word in line for word in (*told, Path(file).name, "Fix: ")) for line in lines), (
        refused.stderr
    )
    assert "Traceback" not in refused.stderr
    assert not state.exists()


def test_a_folder_without_manifests_is_named(tmp_path: Path) -> None:
    refused = baseload("up", str(tmp_path / "nothing"), f"--state={tmp_path / 'state'}")
    assert refused.returncode == 1
    assert str(tmp_path / "nothing") in refused.stderr


def test_a_policy_with_a_typo_is_refused_before_anything_starts(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("classifier: {min_large_char: 100}\n")
    refused = baseload("up", f"--policy={policy}", f"--state={tmp_path / 'state'}", f"--port={free_port()}")
    assert refused.returncode == 1
    assert "min_large_char: unknown field. Fix: write min_large_chars" in refused.stderr
    assert not (tmp_path / "state").exists()


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = baseload("up", f"--state={tmp_path / 'state'}", f"--port={port}")
    assert refused.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in refused.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.store
def test_a_missing_snapshot_stops_the_start_and_leaves_nothing(manifests: Path, tmp_path: Path) -> None:
    spoil(manifests, "overlays/local/services.yaml", "smollm2-135m:latest", "my-model:prod")
    state = tmp_path / "state"
    refused = baseload(
        "up", str(manifests / "overlays" / "local"), f"--state={state}", f"--port={free_port()}"
    )
    assert refused.returncode == 1
    assert "s3://baseload/my-model:prod" in refused.stderr
    assert "baseload snapshot push" in refused.stderr
    assert not (state / "stack.json").exists()
    assert baseload("down", f"--state={state}").returncode == 1


@pytest.mark.store
def test_a_corrupt_snapshot_stops_the_start_and_leaves_nothing(manifests: Path, tmp_path: Path) -> None:
    state = StateFolder.at(tmp_path / "state")
    state.create()
    keys = state.credentials()
    store = ObjectStore.start(state.store, state.log("object-store"), keys)
    try:
        _push_and_corrupt(store_settings(store.endpoint_url, keys), tmp_path / "model")
    finally:
        store.stop()
    for service in ("small", "large"):
        spoil(manifests, "overlays/local/services.yaml", "smollm2-135m:latest", f"broken:{service}")
    folder = str(manifests / "overlays" / "local")
    refused = baseload("up", folder, f"--state={state.root}", f"--port={free_port()}")
    assert refused.returncode == 1
    assert "broken" in refused.stderr
    assert "digest" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert list((state.root / "models").glob("*/*")) == []
    assert state.read_stack() is None


def _push_and_corrupt(settings: S3Settings, model: Path) -> None:
    model.mkdir()
    (model / "config.json").write_text("{}")
    bucket = Bucket(BucketUrl("baseload"), settings)
    bucket.ensure()
    for tag in ("small", "large"):
        SnapshotStore(bucket).push_folder(model, "broken", tag)
    for key in bucket.keys("packs/"):
        stored = bucket.get(key)
        bucket.put_over(key, b"[" + stored.data[1:], stored.etag)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("snapshot", "push", "{tmp}/none", "s3://bucket/name"), "none"),
        (("snapshot", "pull", "s3:/bucket", "{tmp}/m"), "no snapshot"),
        (("snapshot", "ls", "bucket"), "no bucket URL"),
        (("status", "--state={tmp}/none"), "baseload up"),
        (("down", "--state={tmp}/none"), "no stack runs"),
    ],
)
def test_commands_say_what_is_wrong(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    env = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }
    refused = baseload(*(argument.format(tmp=tmp_path) for argument in arguments), env=env)
    assert refused.returncode == 1
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr


def test_help_explains_every_command() -> None:
    shown = baseload("--help").stdout
    for command in ("up", "down", "status", "ask", "snapshot"):
        assert command in shown
        assert baseload(command, "--help").returncode == 0
