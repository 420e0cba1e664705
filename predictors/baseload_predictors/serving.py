"""One predictor from imports to exit: listen, load, answer, drain. Importing this imports vLLM."""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from pathlib import Path

from baseload_predictors.core.batcher import BatchLimits
from baseload_predictors.engine import Engine, start_engine
from baseload_predictors.errors import EngineDiedError, StartError
from baseload_predictors.gate import Gate
from baseload_predictors.metrics import PredictorMetrics
from baseload_predictors.model import BaseloadModel
from baseload_predictors.server import PredictorServer
from baseload_predictors.settings import PredictorSettings
from baseload_predictors.timeline import Timeline

log = logging.getLogger(__name__)

ENGINE_CHECK_S = 0.5
"""How often a dead engine is looked for, seconds."""


async def serve(settings: PredictorSettings, folder: Awaitable[Path], timeline: Timeline) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises StartError when the weights or the engine do not come up, and EngineDiedError when the
    engine dies later; either way the process must end, and whoever runs it starts it again.
    """
    metrics = PredictorMetrics()
    gate = Gate(_limits(settings), metrics)
    models = [BaseloadModel(name, gate) for name in settings.names]
    server = PredictorServer(settings, models)
    engine = asyncio.create_task(_run_engine(settings, folder, timeline, models, metrics))
    engine.add_done_callback(lambda _: server.request_stop())
    try:
        await server.serve()
    finally:
        await _end(engine, models)


def _limits(settings: PredictorSettings) -> BatchLimits:
    return BatchLimits(
        slots=settings.max_num_seqs,
        max_batch_size=settings.max_batch_size,
        max_wait=settings.max_wait,
        max_queue=settings.max_queue,
    )


async def _run_engine(
    settings: PredictorSettings,
    folder: Awaitable[Path],
    timeline: Timeline,
    models: Sequence[BaseloadModel],
    metrics: PredictorMetrics,
) -> None:
    engine = await start_engine(settings, await folder, timeline)
    try:
        timeline.add("total", 0.0)
        for phase in timeline.phases:
            metrics.cold_start.labels(phase.name).set(phase.seconds)
        for model in models:
            model.attach(engine)
        log.info("ready after %.1f s", timeline.now())
        await _watch(engine)
    finally:
        engine.shutdown()


async def _watch(engine: Engine) -> None:
    while engine.alive:  # noqa: ASYNC110 - vLLM tells of a dead engine by this flag only
        await asyncio.sleep(ENGINE_CHECK_S)
    raise EngineDiedError("the engine has died; its own error stands above")


async def _end(engine: "asyncio.Task[None]", models: Sequence[BaseloadModel]) -> None:
    """Stop the engine, and let its error through."""
    if not (engine.done() or all(model.ready for model in models)):
        raise StartError("stopped while the model was loading")
    engine.cancel()
    try:
        await engine
    except asyncio.CancelledError:
        log.info("engine stopped")
