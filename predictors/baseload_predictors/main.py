"""The predictor's process: settings, then weights and imports side by side, then serving."""

import asyncio
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import FrameType

from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from baseload_predictors.errors import PredictorError, StartError
from baseload_predictors.settings import PredictorSettings
from baseload_predictors.timeline import Timeline
from baseload_predictors.weights import model_folder

Serve = Callable[[PredictorSettings, Awaitable[Path], Timeline], Awaitable[None]]


def main() -> None:
    timeline = Timeline.since_process_birth()
    configure_logging()
    settings = read_settings(sys.argv[1:])
    sys.argv = sys.argv[:1]  # kserve parses sys.argv when imported, and would trip over these flags
    try:
        _require_free_port(settings.host, settings.http_port)
        _run(settings, timeline)
    except PredictorError as error:
        _leave(f"error: {error}")


def configure_logging() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for name in ("kserve.trace", "uvicorn.access"):  # a line or three a probe
        logging.getLogger(name).setLevel(logging.WARNING)


def read_settings(arguments: list[str]) -> PredictorSettings:
    """Settings from flags and environment. Exits with status 2 and a line for each wrong one."""
    try:
        return CliApp.run(PredictorSettings, cli_args=arguments)
    except ValidationError as error:
        lines = [f"error: {_flag(detail['loc'])}: {detail['msg']}" for detail in error.errors()]
    except SettingsError as error:
        lines = [f"error: {error}"]
    sys.stderr.write("\n".join([*lines, ""]))
    sys.exit(2)


def _require_free_port(host: str, port: int) -> None:
    """Raises StartError now, and not after the imports. The port stays free for the server to take."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise StartError(f"cannot listen on {host}:{port}: {error.strerror}; see --http-port") from error


def _flag(location: tuple[int | str, ...]) -> str:
    return "--" + str(location[0]).replace("_", "-") if location else "settings"


def _run(settings: PredictorSettings, timeline: Timeline) -> None:
    stopping = threading.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, _end)  # until the server has its own
    with ThreadPoolExecutor(1, "restore") as pool:
        folder = pool.submit(model_folder, settings, timeline, stopping)
        folder.add_done_callback(_leave_if_refused)
        try:
            with timeline.phase("imports"):
                from baseload_predictors.serving import serve  # noqa: PLC0415 - seconds, beside the restore

            asyncio.run(_serve(serve, settings, folder, timeline, stopping))
        finally:
            stopping.set()  # the pool waits for the restore to clean up


async def _serve(
    serve: Serve,
    settings: PredictorSettings,
    folder: "Future[Path]",
    timeline: Timeline,
    stopping: threading.Event,
) -> None:
    try:
        await serve(settings, asyncio.wrap_future(folder), timeline)
    except PredictorError as error:
        # Before asyncio.run ends, which would wait for a thread that still loads an engine.
        stopping.set()
        wait([folder])
        _leave(f"error: {error}")


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _leave_if_refused(folder: "Future[Path]") -> None:
    """Without weights there is nothing to import for."""
    error = folder.exception()
    if isinstance(error, PredictorError):
        _leave(f"error: {error}")


def _leave(message: str) -> None:
    """End now: a thread that still loads an engine can't be interrupted, its children must not stay."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(1)
