"""KServe's ModelServer, with three things mended: honest readiness, a lame duck, OpenAI's error body."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Iterator, Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from kserve import ModelServer
from kserve.errors import ModelNotFound, ModelNotReady
from kserve.model_server import app
from kserve.protocol.dataplane import DataPlane
from kserve.protocol.rest.server import RESTServer, _RefreshingServer

from baseload_predictors.errors import ModelUnknownError, NotReadyError, PredictorError
from baseload_predictors.model import BaseloadModel
from baseload_predictors.settings import PredictorSettings

log = logging.getLogger(__name__)


class Readiness(DataPlane):
    """KServe's data plane says ready as soon as the port is open; this one asks the model."""

    def __init__(self, server: "PredictorServer") -> None:
        super().__init__(server.registered_models)
        self._server = server

    async def ready(self) -> bool:
        return not self._server.draining and await self._server.healthy()


class _QuietServer(_RefreshingServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Uvicorn would stop listening at the first SIGTERM; ``PredictorServer`` drains first."""
        yield


class PredictorRESTServer(RESTServer):
    """KServe's REST server on a chosen address, with this package's routes and error body."""

    def listen_on(self, host: str) -> None:
        self.config.host = host
        self._server = _QuietServer(self.config)

    def create_application(self) -> None:
        super().create_application()
        app.add_api_route("/livez", self.dataplane.live, methods=["GET"])
        app.add_api_route("/readyz", self._readyz, methods=["GET"])
        add_error_handlers(app, list(self.dataplane.model_registry.get_models()))

    async def _readyz(self) -> JSONResponse:
        ready = await self.dataplane.ready()
        return JSONResponse({"ready": ready}, status_code=200 if ready else 503)

    def stop_listening(self) -> None:
        self._server.should_exit = True


class PredictorServer(ModelServer):
    """Serves one engine under all its names until SIGTERM or SIGINT, then drains."""

    def __init__(self, settings: PredictorSettings, models: Sequence[BaseloadModel]) -> None:
        super().__init__(
            http_port=settings.http_port,
            enable_grpc=False,
            enable_latency_logging=False,
            grace_period=max(1, round(settings.drain_timeout)),
        )
        self.models = models
        self.draining = False
        self._settings = settings
        for model in models:
            self.register_model(model)
        self.dataplane = Readiness(self)
        self._stop = asyncio.Event()

    async def serve(self) -> None:
        """Listen until a signal arrives, then: not ready, lame duck, stop listening, finish, return."""
        loop = asyncio.get_running_loop()
        for sig in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(sig, self._stop.set)
        rest = PredictorRESTServer(
            "kserve.model_server:app",
            self.dataplane,
            self.model_repository_extension,
            self.http_port,
            grace_period=self.grace_period,
            timeout_keep_alive=self.timeout_keep_alive,
        )
        rest.listen_on(self._settings.host)
        drainer = asyncio.create_task(self._drain_on_signal(rest))
        try:
            await rest.start()
        finally:
            drainer.cancel()

    async def healthy(self) -> bool:
        return all([await model.healthy() for model in self.models])

    def request_stop(self) -> None:
        self._stop.set()

    async def _drain_on_signal(self, rest: PredictorRESTServer) -> None:
        await self._stop.wait()
        self.draining = True
        log.info("draining: not ready now, listening for %.1f s more", self._settings.lame_duck)
        await asyncio.sleep(self._settings.lame_duck)
        rest.stop_listening()


def add_error_handlers(application: FastAPI, names: list[str]) -> None:
    """Render every refusal as OpenAI's error body."""

    async def predictor_error(_: Request, error: PredictorError) -> JSONResponse:
        return _rendered(error)

    async def unknown_model(_: Request, error: ModelNotFound) -> JSONResponse:
        return _rendered(ModelUnknownError(str(error), names))

    async def not_ready(_: Request, error: ModelNotReady) -> JSONResponse:
        return _rendered(NotReadyError("its weights are still loading, or its engine has died"))

    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(
            _body(_validation_message(error), "invalid_request_error", "invalid_request"), 400
        )

    application.exception_handler(PredictorError)(predictor_error)
    application.exception_handler(ModelNotFound)(unknown_model)
    application.exception_handler(ModelNotReady)(not_ready)
    application.exception_handler(RequestValidationError)(invalid)


def _rendered(error: PredictorError) -> JSONResponse:
    return JSONResponse(_body(str(error), error.type, error.code), error.status, error.headers)


def _body(message: str, type_: str, code: str | None) -> dict[str, dict[str, str | None]]:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def _validation_message(error: RequestValidationError) -> str:
    parts = (
        f"{'.'.join(str(part) for part in detail['loc'][1:])}: {detail['msg']}" for detail in error.errors()
    )
    return "; ".join(parts)
