"""The router as a process: settings, start, signals, drain, exit status."""

import asyncio
import importlib.util
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from random import Random

from pydantic import ValidationError
from pydantic_settings import CliApp

from baseload_manifests.errors import ManifestError
from baseload_router.app import Router
from baseload_router.core.forwarding import withheld
from baseload_router.core.policy import Policy
from baseload_router.core.walk import CompiledGraph
from baseload_router.directory import Directory
from baseload_router.loading import read_graph, read_patterns, read_policy
from baseload_router.logs import log_to_stderr
from baseload_router.server import HttpServer, ServerParts
from baseload_router.settings import RouterSettings
from baseload_router.watch import EndpointsWatch

CANNOT_START = 2

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the router until it is told to stop. The exit status: 0, or 2 when it cannot start."""
    log_to_stderr()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = CliApp.run(RouterSettings, cli_args=given)
        graph = read_graph(settings.graph, settings.graph_json)
        policy = read_policy(settings.policy)
    except ValidationError as error:
        return _cannot_start(_setting_faults(error))
    except ManifestError as error:
        return _cannot_start([str(problem) for problem in error.problems])
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(settings, graph, policy))


async def _serve(settings: RouterSettings, graph: CompiledGraph, policy: Policy) -> int:
    is_file_used = settings.endpoints is not None
    directory = Directory(graph.targets, policy.default_capacity, is_file_used=is_file_used)
    patterns = read_patterns(settings.propagate_headers)
    router = Router(
        graph,
        policy,
        directory,
        withheld=withheld(policy.forward_headers, patterns),
        clock=time.monotonic,
        rng=Random(),
    )
    server = HttpServer(ServerParts(router.handle, router.error_body, policy, time.monotonic))
    stopped = _stop_signals()
    try:
        port = await server.listen(settings.host, settings.port)
    except OSError as error:
        reason = error.strerror or str(error)
        return _cannot_start([f"cannot listen on {settings.host}:{settings.port}: {reason}. Fix: use --port"])
    tasks = [asyncio.create_task(server.run_sweeps())]
    if settings.endpoints is not None:
        tasks.append(asyncio.create_task(EndpointsWatch(settings.endpoints, directory).run()))
    _log.info("listening", extra={"fields": {"host": settings.host, "port": port, "pid": os.getpid()}})
    await _until_failed_or_set(tasks, stopped)
    router.draining = True
    _log.info(
        "draining", extra={"fields": {"lame_duck_s": settings.lame_duck_s, "grace_s": settings.grace_s}}
    )
    await asyncio.sleep(settings.lame_duck_s)
    cut = await server.drain(settings.grace_s)
    for task in tasks:
        task.cancel()
    _log.info("stopped", extra={"fields": {"connections_cut": cut}})
    return 0


def _stop_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    return stopped


async def _until_failed_or_set(tasks: Sequence[asyncio.Task[None]], stopped: asyncio.Event) -> None:
    """Wait for the event. A background task never ends by itself, so one that did has failed: raise that."""
    waiter = asyncio.create_task(stopped.wait())
    done, _ = await asyncio.wait((waiter, *tasks), return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop where it is installed: a fifth faster, and otherwise the same."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415 - optional

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _setting_faults(error: ValidationError) -> list[str]:
    faults = []
    for detail in error.errors(include_url=False):
        flag = "-".join(str(part) for part in detail["loc"]).replace("_", "-")
        faults.append(f"--{flag}: {detail['msg']}" if flag else detail["msg"].removeprefix("Value error, "))
    return faults


def _cannot_start(lines: Sequence[str]) -> int:
    for line in lines:
        print(line, file=sys.stderr)  # noqa: T201 - for a person at a terminal, as is --help
    return CANNOT_START
