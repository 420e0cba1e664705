"""Reaches a stack that another process runs: its status and its end."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from baseload_local.errors import LocalError, NotRunningError
from baseload_local.process import kill_leftovers, runs
from baseload_local.state import StateFolder

STOP_LIMIT_S = 150.0
"""Router, replicas and store have their graces one after another; what still runs then is killed."""


def read_status(state_path: Path) -> dict[str, Any]:
    """stack.json of a stack that runs. Raises NotRunningError."""
    stack = StateFolder.at(state_path).read_stack()
    if stack is None or not is_alive(stack):
        raise NotRunningError(f"no stack runs from {state_path}; start one with: baseload up")
    return stack


def stop(state_path: Path) -> None:
    """End the running stack, or what a crashed one left. Returns when its last process has gone."""
    state = StateFolder.at(state_path)
    stack = state.read_stack()
    if stack is None:
        raise NotRunningError(f"no stack runs from {state_path}")
    if is_alive(stack):
        os.kill(stack["pid"], signal.SIGTERM)
        _wait_for_end(stack)
    kill_leftovers(stack["processes"])
    state.forget_stack()


def kill_parts(state_path: Path) -> None:
    """End the parts of a stack without waiting for what they still do."""
    stack = StateFolder.at(state_path).read_stack()
    kill_leftovers(stack["processes"] if stack else [])


def is_alive(stack: dict[str, Any]) -> bool:
    """Whether the runtime that wrote this record still runs."""
    return runs(stack["pid"], stack["started"])


def _wait_for_end(stack: dict[str, Any]) -> None:
    give_up = time.monotonic() + STOP_LIMIT_S
    while is_alive(stack):
        if time.monotonic() > give_up:
            kill_leftovers([*stack["processes"], stack])
            raise LocalError(f"the stack had not stopped after {STOP_LIMIT_S:.0f} s and was killed")
        time.sleep(0.1)
