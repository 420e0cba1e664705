"""Push from the Hugging Face hub: its own client against a stand-in of its API, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from baseload_storage.core.ref import SnapshotRef
from baseload_storage.restore import restore
from baseload_storage.snapshots import SnapshotStore
from support.hub_stand_in import HubStandIn, Repository, run_hub
from support.s3_stand_in import BUCKET, StandIn, run_stand_in
from support.snapshots import write_weights

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PUSH = """
import json, sys
from baseload_storage.errors import StorageError
from baseload_storage.snapshots import SnapshotStore
try:
    result = SnapshotStore.open(sys.argv[1]).push_hub(sys.argv[2], "llm", **json.loads(sys.argv[3]))
    print(json.dumps({"files": result.files, "already_there": result.already_there}))
except StorageError as error:
    print(json.dumps({"error": type(error).__name__, "told": str(error)}))
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubStandIn]:
    write_weights(tmp_path / "weights")
    files = {
        "model.safetensors": (tmp_path / "weights").read_bytes(),
        "pytorch_model.bin": b"pickle",
        "config.json": b"{}",
        "original/params.json": b"{}",
        ".gitattributes": b"",
    }
    with run_hub() as running:
        running.repositories = {
            "org/llm": Repository(COMMIT, files, revisions=("main", "v1")),
            "org/gated": Repository(COMMIT, files, gated=True),
            "org/old": Repository(COMMIT, {"pytorch_model.bin": b"pickle", "config.json": b"{}"}),
        }
        yield running


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with run_stand_in() as running:
        yield running


def push(hub_url: str, stand_in: StandIn, uri: str, env: dict[str, str], **options: Any) -> dict[str, Any]:
    """What a push came to: files and already_there, or error and told."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "HF_"))}
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{stand_in.port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "HF_ENDPOINT": hub_url,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    done = subprocess.run(
        (sys.executable, "-c", PUSH, f"s3://{BUCKET}", uri, json.dumps(options)),
        env={**clean, **settings, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A place for what the hub's client and the download keep."""
    (tmp_path / "tmp").mkdir()
    return {"HF_HOME": str(tmp_path / "hf"), "TMPDIR": str(tmp_path / "tmp")}


def test_a_branch_is_pinned_to_its_commit_and_comes_back(
    hub: HubStandIn, stand_in: StandIn, home: dict[str, str], tmp_path: Path
) -> None:
    assert push(hub.url, stand_in, "hf://org/llm@v1", home) == {"files": 4, "already_there": False}
    ref = f"s3://{BUCKET}/llm"
    shown = SnapshotStore.open(f"s3://{BUCKET}", stand_in.settings()).show(SnapshotRef.parse(ref))
    assert shown.origin == f"hf://org/llm@{COMMIT}"
    assert shown.dtype == "U16"
    restore(ref, tmp_path / "out", stand_in.settings())
    for name in ("model.safetensors", "original/params.json", ".gitattributes"):
        assert (tmp_path / "out" / name).read_bytes() == hub.repositories["org/llm"].files[name]
    assert not (tmp_path / "out" / "pytorch_model.bin").exists()
    assert not (tmp_path / "out" / ".cache").exists()
    assert not any("pytorch_model.bin" in request for request in hub.requests)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert push(hub.url, stand_in, f"hf://org/llm@{COMMIT}", home)["already_there"]


def test_patterns_choose_the_files(hub: HubStandIn, stand_in: StandIn, home: dict[str, str]) -> None:
    options = {"allow_patterns": ["*.json", "*.safetensors"], "ignore_patterns": ["original/*"]}
    assert push(hub.url, stand_in, "hf://org/llm", home, **options)["files"] == 2


def test_pickles_come_only_when_allowed(hub: HubStandIn, stand_in: StandIn, home: dict[str, str]) -> None:
    refused = push(hub.url, stand_in, "hf://org/old", home)
    assert refused["error"] == "SourceInvalidError"
    assert "pytorch_model.bin" in refused["told"]
    assert not any("/resolve/" in request for request in hub.requests)
    assert push(hub.url, stand_in, "hf://org/old", home, allow_pickle=True)["files"] == 2


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("hf://org/gated", "accept its terms"),
        ("hf://org/none", "no repository org/none"),
        ("hf://org/llm@v9", "no revision v9"),
    ],
)
def test_what_the_hub_refuses_is_explained(
    hub: HubStandIn, stand_in: StandIn, home: dict[str, str], uri: str, told: str
) -> None:
    outcome = push(hub.url, stand_in, uri, home)
    assert outcome["error"] == "HubError"
    assert told in outcome["told"]
    assert stand_in.objects == {}


def test_a_hub_that_cannot_be_reached_is_named(stand_in: StandIn, home: dict[str, str]) -> None:
    outcome = push("http://127.0.0.1:9", stand_in, "hf://org/llm", home)
    assert outcome["error"] == "HubError"
    assert "http://127.0.0.1:9" in outcome["told"]


def test_offline_mode_is_told(hub: HubStandIn, stand_in: StandIn, home: dict[str, str]) -> None:
    outcome = push(hub.url, stand_in, "hf://org/llm", {**home, "HF_HUB_OFFLINE": "1"})
    assert outcome["error"] == "HubError"
    assert "HF_HUB_OFFLINE" in outcome["told"]


@pytest.mark.parametrize("uri", ["hf://llm", "hf:/org/llm", "hf://org/llm/x", "hf://org/a--b", "org/llm"])
def test_what_is_no_repository_is_refused(
    hub: HubStandIn, stand_in: StandIn, home: dict[str, str], uri: str
) -> None:
    assert push(hub.url, stand_in, uri, home)["error"] == "ReferenceInvalidError"
