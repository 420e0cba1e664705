"""``baseload up``, ``down`` and ``status``: the whole stack on one machine."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from baseload_cli.ask import QUESTION, print_answer, put_question
from baseload_cli.console import ConsoleReport
from baseload_client import ClientPolicy
from baseload_local import control
from baseload_local.commands import LOOPBACK
from baseload_local.errors import LocalError
from baseload_local.process import last_words
from baseload_local.stack import LocalOptions, Running, check_start, running_stack
from baseload_local.state import DEFAULT_STATE, StateFolder

MANIFESTS = Path("manifests/overlays/local")
POLL_S = 0.2

State = Annotated[Path, typer.Option(help="Folder for everything that the stack keeps.")]


def up(
    manifests: Annotated[Path, typer.Argument(help="Kustomize folder to run.")] = MANIFESTS,
    host: Annotated[str, typer.Option(help="Address of the router.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the router.")] = 8080,
    policy: Annotated[Path | None, typer.Option(help="The router's policy file, docs/settings.md.")] = None,
    state: State = DEFAULT_STATE,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return once it answers; stop it with `baseload down`.")
    ] = False,
) -> None:
    """Run the stack of the manifests on this machine, ask it one question, and keep it running."""
    options = LocalOptions(manifests, state, host, port, policy)
    bypass_proxies()
    ClientPolicy()  # a wrong variable is told now, and not after the start
    if detach:
        _run_detached(options)
    else:
        raise typer.Exit(asyncio.run(_run(options)))


def down(state: State = DEFAULT_STATE) -> None:
    """Stop the stack, and whatever a crashed one left behind."""
    control.stop(state)
    typer.echo("stopped; no process is left")


def status(
    state: State = DEFAULT_STATE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what runs."""
    stack = control.read_status(state)
    if as_json:
        typer.echo(json.dumps(stack, indent=1))
        return
    typer.echo(f"{stack['url']}  {'answers' if stack['up'] else 'is starting'}  (runtime pid {stack['pid']})")
    for part in stack["processes"]:
        typer.echo(_status_line(part))


def bypass_proxies() -> None:
    """What runs here talks over loopback, whatever proxy the environment names for the rest."""
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), LOOPBACK, "localhost")))


def _status_line(part: dict[str, Any]) -> str:
    readiness = "ready" if part["ready"] else "not ready"
    columns = (
        f"{part['name']:<14}",
        f"{readiness:<9}",
        f"pid {part['pid']:<8}",
        f"{part['restarts']} restarts",
    )
    return "  ".join(("", *columns, part["url"]))


async def _run(options: LocalOptions) -> int:
    """Exit status: 0 for a stack that was up, 130 for one that was stopped before it was."""
    stopped = asyncio.Event()
    report = ConsoleReport()
    _stop_on_signal(options, stopped, report)
    is_up = False
    try:
        async with running_stack(options, report) as running:
            await _prove(running, report)
            is_up = True
            await asyncio.Event().wait()
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        report.note("stopped; no process is left")
    return 0 if is_up else 130


def _stop_on_signal(options: LocalOptions, stopped: asyncio.Event, report: ConsoleReport) -> None:
    """The first signal stops the stack, or hurries a cleanup that already runs; another one kills."""
    work = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if work is not None and not stopped.is_set():
            stopped.set()
            work.cancel()
            report.note("stopping")
        else:
            control.kill_parts(options.state)
            report.note("killed what had not stopped yet")

    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(sig, on_signal)


async def _prove(running: Running, report: ConsoleReport) -> None:
    with report.step("ask one question through the client"):
        answer = await asyncio.to_thread(put_question, running.url, QUESTION)
    print_answer(QUESTION, answer)
    for replica, phases in running.cold_starts.items():
        typer.echo(
            f"cold start of {replica}: " + ", ".join(f"{name} {s:.1f} s" for name, s in phases.items())
        )
    typer.echo(f"router    {running.url}/v1   (models auto, small, large)")
    typer.echo(f"store     {running.store_url}")
    typer.echo(f"logs      {running.state / 'logs'}")
    typer.echo("Ctrl-C stops everything." if sys.stdin.isatty() else "`baseload down` stops everything.")
    running.announce()


def _run_detached(options: LocalOptions) -> None:
    """The same command in a session of its own; its output is shown until it answers or ends."""
    check_start(options, ConsoleReport())
    state = StateFolder.at(options.state)
    state.create()
    log = state.log("up")
    flags: tuple[str, ...] = (f"--host={options.host}", f"--port={options.port}", f"--state={state.root}")
    flags += (f"--policy={options.policy}",) if options.policy else ()
    with log.open("wb") as output:
        process = subprocess.Popen(
            (sys.executable, "-m", "baseload_cli", "up", str(options.manifests), *flags),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _follow(process, state, log)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise


def _follow(process: "subprocess.Popen[bytes]", state: StateFolder, log: Path) -> None:
    with log.open(encoding="utf-8", errors="replace") as lines:
        while process.poll() is None:
            sys.stdout.write(lines.read())
            sys.stdout.flush()
            stack = state.read_stack()
            if stack is not None and stack["pid"] == process.pid and stack["up"]:
                sys.stdout.write(lines.read())
                return
            time.sleep(POLL_S)
        sys.stdout.write(lines.read())
    raise LocalError(last_words(log))
