"""How each part is started on this machine, from what its manifest says."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from baseload_local.errors import LocalError
from baseload_local.process import Command
from baseload_local.state import Credentials, StateFolder
from baseload_manifests.stack import ServiceSpec

LOOPBACK = "127.0.0.1"
FOREIGN = ("AWS_", "S3_", "BASELOAD_")
"""Prefixes of the user's own variables that must not leak into a part."""


def replica_command(
    service: ServiceSpec, replica: str, port: int, env: Mapping[str, str], state: StateFolder
) -> Command:
    """The container's command with its port and folders on this machine; a later flag wins."""
    here = (f"--host={LOOPBACK}", f"--http-port={port}", f"--model-dir={state.model(replica)}")
    at_once = ("--lame-duck=0",)  # the router learns from the endpoints file, before SIGTERM is sent
    return Command(replica, (*_program(service), *service.args, *here, *at_once), env, state.log(replica))


def replica_env(
    service: ServiceSpec, store_url: str, credentials: Credentials, state: StateFolder
) -> dict[str, str]:
    """The manifest's environment, with this machine's store and folders in place of the cluster's."""
    secrets = {"AWS_ACCESS_KEY_ID": credentials.access_key, "AWS_SECRET_ACCESS_KEY": credentials.secret_key}
    unknown = [each.name for each in service.secret_env if each.name not in secrets]
    if unknown:
        raise LocalError(
            f"{service.source}: env {unknown[0]} comes from a Secret that only a cluster has; set a value"
        )
    folders = {
        name: str(state.cache / name.lower()) for name in ("HF_HOME", "VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT")
    }
    here = {
        "AWS_ENDPOINT_URL": store_url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "XDG_CACHE_HOME": str(state.cache),
    }
    return {**own_env(), **service.env, **folders, **here, **secrets}


def router_command(state: StateFolder, host: str, port: int, policy: Path | None = None) -> Command:
    arguments = (
        *(sys.executable, "-m", "baseload_router"),
        *(f"--graph={state.graph}", f"--endpoints={state.endpoints}", f"--host={host}", f"--port={port}"),
        *((f"--policy={policy.resolve()}",) if policy else ()),
    )
    return Command("router", arguments, own_env(), state.log("router"))


def own_env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}


def _program(service: ServiceSpec) -> tuple[str, ...]:
    if service.command[:1] in {("python",), ("python3",)}:
        return (sys.executable, *service.command[1:])
    return service.command
