"""Endpoints file, commands and the record of what runs."""

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from baseload_local import control
from baseload_local.commands import replica_command, replica_env, router_command
from baseload_local.endpoints import EndpointsFile
from baseload_local.errors import LocalError, NotRunningError, PortInUseError
from baseload_local.inventory import Inventory
from baseload_local.process import free_port, require_free
from baseload_local.state import Credentials, StateFolder
from baseload_manifests.stack import SecretEnv, ServiceSpec, load_stack

LOCAL = Path(__file__).parents[2] / "manifests" / "overlays" / "local"


@pytest.fixture(scope="module")
def small() -> ServiceSpec:
    return next(service for service in load_stack(LOCAL).services if service.name == "small")


def test_the_endpoints_file_lists_ready_replicas_only(tmp_path: Path, small: ServiceSpec) -> None:
    path = tmp_path / "endpoints.json"
    endpoints = EndpointsFile(path, (small,))
    empty = {"version": 1, "services": {"small-predictor": {"endpoints": []}}}
    assert json.loads(path.read_text()) == empty
    endpoints.set("small-predictor", "small-0", "http://127.0.0.1:1")
    listed = json.loads(path.read_text())["services"]["small-predictor"]["endpoints"]
    assert listed == [{"url": "http://127.0.0.1:1", "capacity": small.capacity}]
    endpoints.set("small-predictor", "small-0", None)
    assert json.loads(path.read_text()) == empty


def test_an_unchanged_endpoint_is_not_written_again(tmp_path: Path, small: ServiceSpec) -> None:
    path = tmp_path / "endpoints.json"
    endpoints = EndpointsFile(path, (small,))
    path.unlink()
    endpoints.set("small-predictor", "small-0", None)
    assert not path.exists()


def test_a_replica_runs_its_manifests_command_on_this_machine(tmp_path: Path, small: ServiceSpec) -> None:
    command = replica_command(small, "small-0", 4711, {"A": "b"}, StateFolder.at(tmp_path))
    assert command.arguments[:3] == (sys.executable, "-m", "baseload_predictors")
    assert "--snapshot=s3://baseload/smollm2-135m:latest" in command.arguments
    assert command.arguments[-4:-2] == ("--host=127.0.0.1", "--http-port=4711")
    assert command.log == tmp_path / "logs" / "small-0.log"


def test_a_replica_sees_the_embedded_store_and_not_the_users_keys(
    tmp_path: Path, small: ServiceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    env = replica_env(small, "http://127.0.0.1:1", Credentials("key", "secret"), StateFolder.at(tmp_path))
    assert "AWS_PROFILE" not in env
    assert (env["AWS_ENDPOINT_URL"], env["AWS_SECRET_ACCESS_KEY"]) == ("http://127.0.0.1:1", "secret")
    assert env["HF_HOME"].startswith(str(tmp_path))
    assert env["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_a_secret_that_only_a_cluster_has_is_named(tmp_path: Path, small: ServiceSpec) -> None:
    other = replace(small, secret_env=(SecretEnv("HF_TOKEN", "hub", "token"),))
    with pytest.raises(LocalError, match="HF_TOKEN"):
        replica_env(other, "http://127.0.0.1:1", Credentials("key", "secret"), StateFolder.at(tmp_path))


def test_the_router_gets_graph_and_endpoints(tmp_path: Path) -> None:
    command = router_command(StateFolder.at(tmp_path), "127.0.0.1", 8080)
    assert f"--endpoints={tmp_path}/endpoints.json" in command.arguments
    assert f"--graph={tmp_path}/graph.json" in command.arguments
    assert not any(argument.startswith("--policy") for argument in command.arguments)
    ruled = router_command(StateFolder.at(tmp_path), "127.0.0.1", 8080, tmp_path / "policy.yaml")
    assert ruled.arguments[-1] == f"--policy={tmp_path}/policy.yaml"


def test_a_port_in_use_is_refused_with_its_number() -> None:
    port = free_port()
    require_free("127.0.0.1", port)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(PortInUseError, match=f"127.0.0.1:{port}.*--port"):
            require_free("127.0.0.1", port)


def test_status_needs_a_stack_that_lives(tmp_path: Path) -> None:
    state = StateFolder.at(tmp_path)
    with pytest.raises(NotRunningError, match="baseload up"):
        control.read_status(tmp_path)
    Inventory(state, "http://127.0.0.1:8080").announce()
    status = control.read_status(tmp_path)
    assert (status["pid"], status["up"], status["processes"]) == (os.getpid(), True, [])
    state.write_stack({**status, "started": 1.0})
    with pytest.raises(NotRunningError):
        control.read_status(tmp_path)


def test_down_forgets_what_a_crashed_stack_left(tmp_path: Path) -> None:
    state = StateFolder.at(tmp_path)
    state.write_stack({"pid": os.getpid(), "started": 1.0, "processes": []})
    control.stop(tmp_path)
    assert state.read_stack() is None
    with pytest.raises(NotRunningError):
        control.stop(tmp_path)
