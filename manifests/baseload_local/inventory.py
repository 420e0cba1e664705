"""The running stack's own record, stack.json: what ``status`` shows and ``down`` ends."""

import os
from typing import Any

from baseload_local.process import start_time
from baseload_local.state import StateFolder
from baseload_local.supervisor import Supervisor


class Inventory:
    """Rewrites stack.json at each change, so that it names every process even after a kill -9."""

    def __init__(self, state: StateFolder, url: str) -> None:
        self._state = state
        pid = os.getpid()
        self._runtime: dict[str, Any] = {"pid": pid, "started": start_time(pid), "url": url, "up": False}
        self._parts: dict[str, dict[str, Any]] = {}

    def update(self, supervisor: Supervisor, name: str, url: str) -> None:
        pid = supervisor.pid or 0
        self._parts[name] = {
            "name": name,
            "pid": pid,
            "started": start_time(pid) if pid else 0.0,
            "ready": supervisor.ready,
            "restarts": supervisor.restarts,
            "url": url,
            "log": str(self._state.log(name)),
        }
        self._write()

    def announce(self) -> None:
        """The whole stack has answered."""
        self._runtime["up"] = True
        self._write()

    def _write(self) -> None:
        self._state.write_stack({**self._runtime, "processes": list(self._parts.values())})
