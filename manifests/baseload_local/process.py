"""Child processes: each in a group of its own, so that stopping one leaves no grandchild."""

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from baseload_local.errors import PortInUseError

LAST_WORDS = re.compile(r"^error: (.*)$", re.MULTILINE)
TAIL_BYTES = 64 * 1024
KILL_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Command:
    """How to start one part. ``env`` is the whole environment."""

    name: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    log: Path


class Child:
    """A running process and its group."""

    def __init__(self, command: Command, process: asyncio.subprocess.Process, log_begin: int) -> None:
        self.command = command
        self._process = process
        self._log_begin = log_begin

    @classmethod
    async def start(cls, command: Command, *, again: bool = False) -> "Child":
        """``again``: after a crash, whose log is kept."""
        with command.log.open("ab" if again else "wb") as log:
            begin = log.tell()
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                env=dict(command.env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return cls(command, process, begin)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        """Wait for the end; what is left of its group is killed then. Returns the exit status."""
        status = await self._process.wait()
        kill_group(self.pid)
        return status

    async def stop(self, grace: float) -> None:
        """SIGTERM, ``grace`` seconds, then SIGKILL to the whole group; at once if the stop is cancelled."""
        if self.running:
            self._process.terminate()
            try:
                async with asyncio.timeout(grace):
                    await self._process.wait()
            except TimeoutError:
                pass  # it has had its time
            finally:
                kill_group(self.pid)
        await self.wait()

    def last_words(self) -> str:
        """The last line that starts with ``error:`` in the log, or else the log's end."""
        return last_words(self.command.log, self._log_begin)


def last_words(log: Path, begin: int = 0) -> str:
    """The last ``error:`` line after byte ``begin`` of a log, or else its last lines."""
    with log.open("rb") as file:
        file.seek(max(begin, log.stat().st_size - TAIL_BYTES))
        tail = file.read().decode("utf-8", "replace").strip()
    errors = LAST_WORDS.findall(tail)
    return errors[-1] if errors else "\n".join(tail.splitlines()[-5:])


def kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_leftovers(processes: Sequence[Mapping[str, float]]) -> list[int]:
    """Kill the groups of a stack and wait for their end. A reused pid is recognised by its start time."""
    left = [int(entry["pid"]) for entry in processes if runs(int(entry["pid"]), entry["started"])]
    for pid in left:
        kill_group(pid)
    give_up = time.monotonic() + KILL_LIMIT_S
    while any(start_time(pid) for pid in left) and time.monotonic() < give_up:
        time.sleep(0.02)
    return left


def runs(pid: int, started: float) -> bool:
    """Whether ``pid`` is still the process that started then."""
    return started > 0 and start_time(pid) == started


def start_time(pid: int) -> float:
    """When ``pid`` started, in ticks since boot (proc(5)), which no clock step moves; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return 0.0 if fields[0] == "Z" else float(fields[19])


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def require_free(host: str, port: int) -> None:
    """Raises PortInUseError when something listens on ``host:port``."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortInUseError(
                f"cannot listen on {host}:{port}: {error.strerror}; free it, or choose another with --port"
            ) from error
