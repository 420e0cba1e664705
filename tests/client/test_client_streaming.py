"""Streams through both clients: handed on as they come, retried before the first event, never cut short
in silence."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import openai
import pytest

from baseload_client import (
    AsyncClient,
    AsyncResilientTransport,
    Client,
    RetryBudget,
    StreamTimeoutError,
    StreamTruncatedError,
    TargetKey,
    resilience_of,
)
from baseload_client.testing import CutAfter, FakeUpstream, Gate, Hang, Reply, VirtualClock

MakeClient = Callable[..., Client]
MakeAsyncClient = Callable[..., AsyncClient]

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "stream": True}
CUTS = [CutAfter(events=3), CutAfter(events=3, clean=True)]


def text(chunk: Any) -> str:
    return chunk.choices[0].delta.content or "" if chunk.choices else ""


def recorded(client: Client | AsyncClient, base_url: str, clock: VirtualClock, model: str = "small") -> int:
    """Outcomes in the window of a model's breaker."""
    return breakers_of(client).get(TargetKey(base_url, model), clock.now()).recorded


def breakers_of(client: Client | AsyncClient) -> Any:
    return client._client._transport.breakers  # type: ignore[union-attr]  # ours by construction


def test_stream_is_handed_on_while_it_comes(upstream: FakeUpstream, make_client: MakeClient) -> None:
    gate = Gate()
    upstream.script(Reply(tokens=["a", "b", "c"], gate=gate, gate_after=1))
    stream = make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    assert text(next(stream)) == "a"
    report = resilience_of(stream)
    assert report is not None
    assert report.tier_served == "small"
    gate.open()
    assert [text(chunk) for chunk in stream] == ["b", "c", ""]


def test_complete_stream_is_a_success(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    client = make_client(upstream.base_url)
    list(client.chat.completions.create(model="small", **ASK))
    assert recorded(client, upstream.base_url, clock) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(tokens=["a"], done=False),
        Reply(tokens=[]),
        Reply(tokens=[], done=False),
        Reply(tokens=["a"], finish_reason=None),
        Reply(events=['{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}']),
    ],
    ids=["no-done", "empty", "empty-no-done", "done-without-reason", "tool-calls"],
)
def test_finish_reason_or_done_is_a_success_and_no_fallback(
    upstream: FakeUpstream, make_client: MakeClient, reply: Reply
) -> None:
    upstream.script(reply)
    list(make_client(upstream.base_url).chat.completions.create(model="small", **ASK))
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("cut", CUTS, ids=["dropped", "ended"])
def test_end_after_three_tokens_is_a_truncated_error(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock, cut: CutAfter
) -> None:
    upstream.script(cut)
    client = make_client(upstream.base_url)
    tokens: list[str] = []
    stream = client.chat.completions.create(model="small", **ASK)
    with pytest.raises(openai.APIConnectionError, match="after 3 events without a finish_reason") as raised:
        tokens.extend(text(chunk) for chunk in stream)
    assert isinstance(raised.value.__cause__, StreamTruncatedError)
    assert tokens == ["t0 ", "t1 ", "t2 "]
    assert len(upstream.requests) == 1, "a stream that has begun is not asked for again"
    assert recorded(client, upstream.base_url, clock) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Reply(status=503),
        CutAfter(events=0),
        CutAfter(events=0, clean=True),
        Reply(events=['{"error":{"message":"engine died","code":500}}']),
    ],
    ids=["status", "dropped", "ended", "error-event"],
)
def test_failure_before_the_first_event_falls_back(
    upstream: FakeUpstream, make_client: MakeClient, fault: Reply | CutAfter
) -> None:
    upstream.script(fault, fault)
    stream = make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    assert "".join(text(chunk) for chunk in stream) == "reply from large"
    assert [request.model for request in upstream.requests] == ["small", "small", "large"]


@pytest.mark.parametrize(("code", "asked"), [(500, 2), (400, 1)])
def test_error_event_that_nobody_could_mend_reaches_the_caller_as_the_server_said_it(
    upstream: FakeUpstream, make_client: MakeClient, code: int, asked: int
) -> None:
    failed = Reply(events=[json.dumps({"error": {"message": "engine died", "code": code}})])
    upstream.default = failed
    with pytest.raises(openai.APIError, match="engine died"):
        list(make_client(upstream.base_url, fallbacks={}).chat.completions.create(model="small", **ASK))
    assert len(upstream.requests) == asked


@pytest.mark.parametrize(("code", "counted"), [(500, 1), (400, 0)])
def test_error_event_mid_stream_counts_as_its_status_says(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock, code: int, counted: int
) -> None:
    token = '{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}'
    error = json.dumps({"error": {"message": "engine died", "code": code}})
    upstream.script(Reply(events=[token, error, "[DONE]"]))
    client = make_client(upstream.base_url)
    with pytest.raises(openai.APIError, match="engine died"):
        list(client.chat.completions.create(model="small", **ASK))
    assert recorded(client, upstream.base_url, clock) == counted


def test_consumer_that_walks_away_is_no_outcome_and_ends_the_upstream_work(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    upstream.script(Hang(after_events=2))
    client = make_client(upstream.base_url)
    with client.chat.completions.create(model="small", **ASK) as stream:
        next(stream)
    assert upstream.requests[0].wait_disconnected()
    assert recorded(client, upstream.base_url, clock) == 0


def test_silence_mid_stream_is_a_timeout_and_a_failure(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    upstream.script(Hang(after_events=2))
    client = make_client(upstream.base_url, attempt_timeout_s=0.3)
    with pytest.raises(openai.APITimeoutError, match="fell silent after 2 events") as raised:
        list(client.chat.completions.create(model="small", **ASK))
    assert isinstance(raised.value.__cause__, StreamTimeoutError)
    assert recorded(client, upstream.base_url, clock) == 1


def test_deadline_ends_a_running_stream(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    upstream.script(Hang(after_events=2))
    stream = make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    next(stream)
    clock.advance(120.0)
    with pytest.raises(openai.APITimeoutError, match="deadline passed"):
        list(stream)


def test_watched_stream_is_asked_for_uncompressed(upstream: FakeUpstream, make_client: MakeClient) -> None:
    list(make_client(upstream.base_url).chat.completions.create(model="small", **ASK))
    assert upstream.requests[0].headers["accept-encoding"] == "identity"


def test_streaming_helper_of_the_sdk_reports_too(upstream: FakeUpstream, make_client: MakeClient) -> None:
    client = make_client(upstream.base_url)
    with client.chat.completions.stream(model="small", messages=[]) as stream:
        assert stream.get_final_completion().choices[0].message.content == "reply from small"
        assert resilience_of(stream) is not None


def test_plain_body_that_is_no_event_stream_is_handed_on_as_it_is(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    upstream.script(Reply(body=b"\x00\x01"), path="/v1/audio/speech")
    client = make_client(upstream.base_url)
    reply = client.post("/audio/speech", body={"model": "small"}, cast_to=httpx2.Response)
    assert reply.content == b"\x00\x01"
    assert recorded(client, upstream.base_url, clock) == 1


async def test_async_stream_is_handed_on_and_counts_as_a_success(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock
) -> None:
    client = make_async_client(upstream.base_url)
    stream = await client.chat.completions.create(model="small", **ASK)
    assert "".join([text(chunk) async for chunk in stream]) == "reply from small"
    assert resilience_of(stream) is not None
    assert recorded(client, upstream.base_url, clock) == 1


@pytest.mark.parametrize("cut", CUTS, ids=["dropped", "ended"])
async def test_async_end_after_three_tokens_is_a_truncated_error(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock, cut: CutAfter
) -> None:
    upstream.script(cut)
    client = make_async_client(upstream.base_url)
    stream = await client.chat.completions.create(model="small", **ASK)
    with pytest.raises(openai.APIConnectionError, match="after 3 events without a finish_reason"):
        _ = [chunk async for chunk in stream]
    assert recorded(client, upstream.base_url, clock) == 1


async def test_async_failure_before_the_first_event_falls_back(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient
) -> None:
    upstream.script(CutAfter(events=0), Reply(events=['{"error":{"code":500}}']))
    stream = await make_async_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    assert "".join([text(chunk) async for chunk in stream]) == "reply from large"


async def test_async_cancellation_mid_stream_closes_the_upstream_connection(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock
) -> None:
    upstream.script(Hang(after_events=1))
    client = make_async_client(upstream.base_url)
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in await client.chat.completions.create(model="small", **ASK):
            begun.set()

    reading = asyncio.create_task(read())
    await begun.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await upstream.requests[0].until_disconnected()
    assert recorded(client, upstream.base_url, clock) == 0


async def test_async_silence_mid_stream_is_a_timeout(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock
) -> None:
    upstream.script(Hang(after_events=2))
    client = make_async_client(upstream.base_url, attempt_timeout_s=0.3)
    with pytest.raises(openai.APITimeoutError, match="fell silent after 2 events"):
        _ = [chunk async for chunk in await client.chat.completions.create(model="small", **ASK)]
    assert recorded(client, upstream.base_url, clock) == 1


@pytest.mark.parametrize("passed", [119.95, 120.0], ids=["while-reading", "between-reads"])
async def test_async_deadline_ends_a_running_stream(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock, passed: float
) -> None:
    upstream.script(Hang(after_events=1))
    stream = await make_async_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    await anext(stream)
    clock.advance(passed)
    with pytest.raises(openai.APITimeoutError, match="deadline passed"):
        await anext(stream)


async def test_answer_that_was_complete_before_the_connection_broke_is_a_success(clock: VirtualClock) -> None:
    class Breaks(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
            raise httpx2.ReadError("reset by peer")

    def reply(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Breaks())

    transport = AsyncResilientTransport(
        base_url="http://x/v1", clock=clock, budget=RetryBudget(), inner=httpx2.MockTransport(reply)
    )
    async with AsyncClient(base_url="http://x/v1", transport=transport) as client:
        stream = await client.chat.completions.create(model="small", **ASK)
        assert [text(chunk) async for chunk in stream] == ["a"]
        assert recorded(client, "http://x/v1", clock) == 1
