"""Real child processes: start, readiness, crash, restart, stop."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from baseload_cli.console import ConsoleReport
from baseload_local.control import kill_parts
from baseload_local.core.restarts import RestartPolicy
from baseload_local.errors import AlreadyRunningError, ProcessFailedError
from baseload_local.process import Child, Command, free_port, kill_leftovers, last_words, start_time
from baseload_local.stack import LocalOptions, check_start
from baseload_local.state import StateFolder
from baseload_local.supervisor import Supervisor
from support.waiting import until

LOCAL = Path(__file__).parents[2] / "manifests" / "overlays" / "local"
SLEEPER = "import time; time.sleep(600)"
WITH_GRANDCHILD = f"""
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", {SLEEPER!r}]).pid, flush=True)
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""


def command(tmp_path: Path, code: str) -> Command:
    return Command("part", (sys.executable, "-c", code), dict(os.environ), tmp_path / "part.log")


class World:
    """What the probe answers, and what the supervisor told."""

    def __init__(self) -> None:
        self.answers = True
        self.told: list[bool] = []

    async def probe(self) -> bool:
        return self.answers

    def supervise(self, make: Callable[[], Command]) -> Supervisor:
        policy = RestartPolicy(first=0.01, ceiling=0.02)
        supervisor = Supervisor(make, self.probe, lambda: self.told.append(supervisor.ready), policy)
        return supervisor


async def test_a_crashed_process_is_started_again(tmp_path: Path) -> None:
    world = World()
    supervisor = world.supervise(lambda: command(tmp_path, f"print('up', flush=True); {SLEEPER}"))
    await supervisor.start()
    await until(lambda: (tmp_path / "part.log").read_text() == "up\n")
    keeper = asyncio.create_task(supervisor.keep())
    first = supervisor.pid
    assert first is not None
    os.kill(first, 9)
    await until(lambda: supervisor.ready and supervisor.pid not in (None, first))
    assert supervisor.restarts == 1
    await until(lambda: (tmp_path / "part.log").read_text() == "up\nup\n")  # the log outlives a restart
    assert world.told == [False, True, False, False, True]
    keeper.cancel()
    await supervisor.stop(grace=5)
    assert supervisor.pid is None


async def test_readiness_follows_the_probe_while_it_runs(tmp_path: Path) -> None:
    world = World()
    supervisor = world.supervise(lambda: command(tmp_path, SLEEPER))
    await supervisor.start()
    keeper = asyncio.create_task(supervisor.keep())
    world.answers = False
    await until(lambda: not supervisor.ready)
    world.answers = True
    await until(lambda: supervisor.ready)
    assert supervisor.restarts == 0
    keeper.cancel()
    await supervisor.stop(grace=5)


async def test_an_end_before_readiness_is_told_with_its_last_error(tmp_path: Path) -> None:
    world = World()
    world.answers = False
    code = "import sys; print('noise'); print('error: no such snapshot'); print('more'); sys.exit(1)"
    supervisor = world.supervise(lambda: command(tmp_path, code))
    with pytest.raises(ProcessFailedError, match="part ended: no such snapshot"):
        await supervisor.start()


async def test_a_restart_that_fails_is_tried_again(tmp_path: Path) -> None:
    world = World()
    codes = iter([SLEEPER, "raise SystemExit(1)", SLEEPER])

    async def probe() -> bool:
        return supervisor.pid is not None and psutil.Process(supervisor.pid).cmdline()[-1:] == [SLEEPER]

    world.probe = probe  # type: ignore[method-assign]  # this test's probe looks at the process
    supervisor = world.supervise(lambda: command(tmp_path, next(codes)))
    await supervisor.start()
    keeper = asyncio.create_task(supervisor.keep())
    os.kill(supervisor.pid or 0, 9)
    await until(lambda: supervisor.restarts == 2 and supervisor.ready)
    keeper.cancel()
    await supervisor.stop(grace=5)


async def test_stop_takes_the_grandchildren_along(tmp_path: Path) -> None:
    child = await Child.start(command(tmp_path, WITH_GRANDCHILD))
    await until(lambda: child.command.log.read_text().strip().isdigit())
    grandchild = int(child.command.log.read_text())
    await child.stop(grace=5)
    await until(lambda: start_time(grandchild) == 0)


async def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    child = await Child.start(command(tmp_path, STUBBORN))
    await until(lambda: child.command.log.read_text() == "up\n")
    await child.stop(grace=0.05)
    assert not child.running


async def test_a_stop_that_is_cancelled_kills_at_once(tmp_path: Path) -> None:
    child = await Child.start(command(tmp_path, STUBBORN))
    await until(lambda: child.command.log.read_text() == "up\n")
    stopping = asyncio.create_task(child.stop(grace=600))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await child.wait() == -9


async def test_a_part_is_stopped_even_if_its_record_cannot_be_written(tmp_path: Path) -> None:
    world = World()
    supervisor = world.supervise(lambda: command(tmp_path, SLEEPER))
    await supervisor.start()

    def full() -> None:
        raise OSError("No space left on device")

    supervisor._on_change = full
    with pytest.raises(OSError, match="No space"):
        await supervisor.stop(grace=5)
    assert supervisor.pid is None


async def test_what_a_killed_runtime_left_is_ended_before_its_port_is_asked_for(tmp_path: Path) -> None:
    left = await Child.start(command(tmp_path, SLEEPER))
    state = StateFolder.at(tmp_path)
    record = {"pid": left.pid, "processes": [{"pid": left.pid, "started": start_time(left.pid)}]}
    state.write_stack({**record, "started": start_time(left.pid)})
    with pytest.raises(AlreadyRunningError):
        check_start(LocalOptions(LOCAL, tmp_path, port=free_port()), ConsoleReport())
    state.write_stack({**record, "started": 1.0})
    check_start(LocalOptions(LOCAL, tmp_path, port=free_port()), ConsoleReport())
    assert await left.wait() == -9
    assert state.read_stack() is None


async def test_leftovers_are_killed_unless_their_pid_was_reused(tmp_path: Path) -> None:
    child = await Child.start(command(tmp_path, SLEEPER))
    entry = {"pid": child.pid, "started": start_time(child.pid)}
    assert kill_leftovers([{"pid": child.pid, "started": 1.0}]) == []
    assert kill_leftovers([entry]) == [child.pid]
    assert await child.wait() == -9
    assert kill_leftovers([entry]) == []


async def test_a_hurried_stop_kills_the_recorded_parts(tmp_path: Path) -> None:
    child = await Child.start(command(tmp_path, SLEEPER))
    record = {"processes": [{"pid": child.pid, "started": start_time(child.pid)}]}
    StateFolder.at(tmp_path).write_stack(record)
    kill_parts(tmp_path)
    assert await child.wait() == -9


def test_last_words_without_an_error_line_are_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("\n".join(str(n) for n in range(9)))
    assert last_words(log) == "4\n5\n6\n7\n8"
