"""KServe's server around a scripted engine, over real HTTP. Real vLLM stands in tests/e2e."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from prometheus_client import CollectorRegistry
from vllm.entrypoints.openai.engine.protocol import ErrorInfo, ErrorResponse

from baseload_local.process import free_port
from baseload_predictors.core.batcher import BatchLimits
from baseload_predictors.engine import Engine
from baseload_predictors.gate import Gate
from baseload_predictors.main import read_settings
from baseload_predictors.metrics import PredictorMetrics
from baseload_predictors.model import BaseloadModel
from baseload_predictors.server import PredictorServer
from support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "/openai/v1/chat/completions"
Script = Callable[[], Any]


@dataclass
class FakeHandler:
    """Stands for OpenAIServingChat and OpenAIServingCompletion: does what the test scripted."""

    script: Script = lambda: None
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def create_chat_completion(self, request: Any, raw_request: Any) -> Any:
        return self.script()

    create_completion = create_chat_completion

    async def stream(self, gate: asyncio.Event) -> AsyncGenerator[str, None]:
        try:
            yield "data: one\n\n"
            await gate.wait()
            yield "data: [DONE]\n\n"
        finally:
            self.closed.set()


@dataclass
class FakeClient:
    errored: bool = False


@dataclass
class Served:
    http: httpx2.AsyncClient
    handler: FakeHandler
    client: FakeClient
    gate: Gate
    models: list[BaseloadModel]
    server: PredictorServer
    serving: "asyncio.Task[None]"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    port = free_port()
    flags = [
        f"--http-port={port}",
        "--host=127.0.0.1",
        "--model-name=small",
        "--model-dir=m",
        "--lame-duck=2",
    ]
    settings = read_settings([*flags, "--served-model-name=auto"])
    gate = Gate(BatchLimits(1, 1, 0.0, 1), PredictorMetrics(CollectorRegistry()))
    models = [BaseloadModel(name, gate) for name in settings.names]
    server = PredictorServer(settings, models)
    serving = asyncio.create_task(server.serve())
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
        await _until_live(http, serving)
        yield Served(http, FakeHandler(), FakeClient(), gate, models, server, serving)
    server.request_stop()
    await serving


async def _until_live(http: httpx2.AsyncClient, serving: "asyncio.Task[None]") -> None:
    while not serving.done():
        try:
            if (await http.get("/livez")).status_code == 200:
                return
        except httpx2.TransportError:
            await asyncio.sleep(0.02)
    raise AssertionError(f"the server ended: {serving}")


def body(**changes: Any) -> dict[str, Any]:
    return {"model": "small", "messages": [{"role": "user", "content": "Hi"}], **changes}


async def test_1_live_but_not_ready_while_the_engine_loads(served: Served) -> None:
    codes = {
        path: (await served.http.get(path)).status_code for path in ("/livez", "/readyz", "/v2/health/ready")
    }
    assert codes == {"/livez": 200, "/readyz": 503, "/v2/health/ready": 503}
    reply = await served.http.post(CHAT, json=body())
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert reply.json()["error"]["code"] == "not_ready"
    assert not served.models[0].ready, "KServe's get_model must not have declared it ready"


async def test_2_ready_once_the_engine_is_attached(served: Served) -> None:
    for model in served.models:
        model.attach(Engine(served.client, served.handler, served.handler))  # type: ignore[arg-type]  # fakes
    assert (await served.http.get("/readyz")).json() == {"ready": True}
    listed = (await served.http.get("/openai/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["small", "auto"]


async def test_3_an_unknown_model_and_a_bad_body_get_openai_errors(served: Served) -> None:
    unknown = await served.http.post(CHAT, json=body(model="nope"))
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert "nope" in unknown.json()["error"]["message"]
    missing = await served.http.post(CHAT, json={"model": "small"})
    assert (missing.status_code, missing.json()["error"]["message"]) == (400, "messages: Field required")


@pytest.mark.parametrize(
    ("message", "code"),
    [("This model's maximum context length is 8 tokens.", "context_length_exceeded"), ("No.", None)],
)
async def test_4_vllm_refusals_keep_status_and_message(
    served: Served, message: str, code: str | None
) -> None:
    refusal = ErrorResponse(error=ErrorInfo(message=message, type="BadRequestError", code=400))
    served.handler.script = lambda: refusal
    reply = await served.http.post(CHAT, json=body())
    assert (reply.status_code, reply.json()["error"]["message"], reply.json()["error"]["code"]) == (
        400,
        message,
        code,
    )
    assert served.gate.idle


async def test_5_an_exception_in_the_engine_fails_its_own_request_only(served: Served) -> None:
    def broken() -> None:
        raise RuntimeError("boom")

    served.handler.script = broken
    assert (await served.http.post(CHAT, json=body())).status_code == 500
    assert served.gate.idle


async def test_6_a_stream_passes_chunk_by_chunk_and_frees_its_slot(served: Served) -> None:
    gate = asyncio.Event()
    served.handler.script = lambda: served.handler.stream(gate)
    async with served.http.stream("POST", CHAT, json=body(stream=True)) as reply:
        chunks = reply.aiter_text()
        assert await anext(chunks) == "data: one\n\n"
        gate.set()
        assert await anext(chunks) == "data: [DONE]\n\n"
    await until(lambda: served.gate.idle)


async def test_7_a_client_that_goes_away_aborts_the_engine_request(served: Served) -> None:
    served.handler.closed.clear()
    served.handler.script = lambda: served.handler.stream(asyncio.Event())
    async with served.http.stream("POST", CHAT, json=body(stream=True)) as reply:
        assert await anext(reply.aiter_text()) == "data: one\n\n"
    async with asyncio.timeout(5):
        await served.handler.closed.wait()
    await until(lambda: served.gate.idle)


async def test_8_beyond_slot_and_queue_a_request_gets_429(served: Served) -> None:
    gate = asyncio.Event()
    served.handler.script = lambda: served.handler.stream(gate)
    async with served.http.stream("POST", CHAT, json=body(stream=True)) as running:
        chunks = running.aiter_text()
        assert await anext(chunks) == "data: one\n\n"
        waiting = asyncio.create_task(served.http.post(CHAT, json=body(stream=True)))
        await until(lambda: not waiting.done() and served.gate.waiting == 1)
        refused = await served.http.post(CHAT, json=body())
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert refused.json()["error"]["code"] == "queue_full"
        gate.set()
        assert await anext(chunks) == "data: [DONE]\n\n"
        assert (await waiting).status_code == 200
    await until(lambda: served.gate.idle)


async def test_9_a_dead_engine_is_neither_ready_nor_asked(served: Served) -> None:
    served.client.errored = True
    assert (await served.http.get("/readyz")).status_code == 503
    assert (await served.http.post(CHAT, json=body())).status_code == 503
    served.client.errored = False


async def test_last_sigterm_lets_a_running_stream_finish(served: Served) -> None:
    gate = asyncio.Event()
    served.handler.script = lambda: served.handler.stream(gate)
    async with served.http.stream("POST", CHAT, json=body(stream=True)) as reply:
        chunks = reply.aiter_text()
        await anext(chunks)
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: served.server.draining)
        assert (await served.http.get("/readyz")).status_code == 503, "a lame duck still listens"
        await _until_refused(served.http)
        gate.set()
        assert await anext(chunks) == "data: [DONE]\n\n"
    await served.serving


async def _until_refused(http: httpx2.AsyncClient) -> None:
    url = f"{http.base_url}/livez"
    for _ in range(500):
        try:
            async with httpx2.AsyncClient() as fresh:
                await fresh.get(url)
        except httpx2.ConnectError:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the listener did not close")
