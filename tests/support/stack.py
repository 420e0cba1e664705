"""The whole local stack for end-to-end tests: `baseload up` as a user runs it, real vLLM on real weights."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
UP_LIMIT_S = 600.0
DOWN_LIMIT_S = 160.0


def baseload(
    *arguments: str, env: dict[str, str] | None = None, limit: float = 120
) -> "subprocess.CompletedProcess[str]":
    """Run one command as a user does, from the repository's root."""
    return subprocess.run(
        (sys.executable, "-m", "baseload_cli", *arguments),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


@dataclass
class RunningStack:
    """A stack in the foreground of a session of its own."""

    process: "subprocess.Popen[bytes]"
    state: Path
    port: int
    output: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.state / "stack.json").read_text())
        return record

    def part(self, name: str) -> dict[str, Any]:
        return next(part for part in self.record()["processes"] if part["name"] == name)

    def processes(self) -> list[psutil.Process]:
        """Every process below the runtime, and the engines of parts that lead groups of their own."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def wait_until(self, condition: str, limit: float = UP_LIMIT_S) -> None:
        """Until ``condition`` stands in the output. The process must not end meanwhile."""
        give_up = time.monotonic() + limit
        while condition not in self.output.read_text():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < give_up, self.output.read_text()
            time.sleep(0.2)

    def interrupt(self) -> int:
        """Ctrl-C, and wait for the end."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(DOWN_LIMIT_S)


def run_stack(
    folder: Path, port: int, awaited: str = "stops everything", arguments: Sequence[str] = ()
) -> Generator[RunningStack, None, None]:
    """Start, yield once ``awaited`` was printed, and see that nothing is left even if the test fails."""
    output, state = folder / "up.out", folder / "state"
    with output.open("wb") as out:
        process = subprocess.Popen(
            (sys.executable, "-m", "baseload_cli", "up", f"--port={port}", f"--state={state}", *arguments),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    stack = RunningStack(process, state, port, output)
    try:
        stack.wait_until(awaited)
        yield stack
    finally:
        if process.poll() is None:
            stack.interrupt()
        baseload("down", f"--state={state}", limit=DOWN_LIMIT_S)  # what a failed test may have left
