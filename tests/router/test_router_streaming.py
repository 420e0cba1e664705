"""Answers on their way: chunk by chunk, broken off by either side, or too slow."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from baseload_client.testing import CutAfter, FakeUpstream, Gate, Hang, Reply

SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = SSE + b"transfer-encoding: chunked\r\n\r\n"
ASK = b'{"model": "small", "stream": true}'


def post(body: bytes = ASK, version: str = "1.1") -> bytes:
    head = f"POST /v1/chat/completions HTTP/{version}\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def always(data: bytes, *, close: bool = False) -> Any:
    """A handler of raw_upstream that answers with these bytes."""

    async def handler(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        if close:
            writer.close()

    return handler


def dechunked(data: bytes) -> bytes:
    """The body of whole chunks, and nothing else."""
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        if int(size, 16) == 0:
            assert data == b"\r\n"
            return body
        body += data[: int(size, 16)]
        data = data[int(size, 16) + 2 :]


async def test_the_first_token_arrives_before_the_upstream_goes_on(router: Any, small: FakeUpstream) -> None:
    gate = Gate()
    small.script(Reply(tokens=["a", "b"], gate=gate, gate_after=1))
    ask = {"model": "small", "stream": True}
    async with router.client.stream("POST", "/v1/chat/completions", json=ask) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["x-baseload-tier"] == "small"
        lines = answer.aiter_lines()
        first = json.loads((await anext(lines)).removeprefix("data: "))
        assert first["choices"][0]["delta"]["content"] == "a"
        assert not small.requests[0].answered.is_set()
        gate.open()
        rest = [line async for line in lines if line]
    assert len(rest) == 3
    assert rest[-1] == "data: [DONE]"


async def test_events_pass_unchanged(router: Any, small: FakeUpstream) -> None:
    events = ['{"usage": {"total_tokens": 3}, "unknown": [1.50]}', "[DONE]"]
    small.script(Reply(events=events))
    answer = await router.chat(stream=True)
    assert answer.text == "".join(f"data: {event}\n\n" for event in events)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_first_byte_frees_the_upstream(
    router: Any, small: FakeUpstream, stream: bool
) -> None:
    small.script(Hang())
    connection = await router.connect()
    connection.send(post(json.dumps({"model": "small", "stream": stream}).encode()))
    (request,) = await small.arrived(1)
    assert router.in_flight() == 1
    connection.abort()
    assert await request.until_disconnected()
    assert router.in_flight() == 0
    assert await router.metric("baseload_router_aborts_total", tier="small", version="stable", side="client")
    assert await router.metric("baseload_router_requests_total", tier="small", version="stable", code="499")


async def test_a_client_that_leaves_a_stream_frees_the_upstream(router: Any, small: FakeUpstream) -> None:
    small.script(Hang(after_events=2))
    connection = await router.connect()
    connection.send(post())
    await connection.reader.readuntil(b"t1 ")
    connection.abort()
    assert await small.requests[0].until_disconnected()
    assert router.in_flight() == 0


async def test_a_client_that_only_stops_sending_has_left_too(router: Any, small: FakeUpstream) -> None:
    small.script(Hang())
    connection = await router.connect()
    connection.send(post())
    (request,) = await small.arrived(1)
    connection.writer.write_eof()
    assert await request.until_disconnected()


async def test_a_stream_whose_upstream_dies_ends_with_an_error_event(
    router: Any, small: FakeUpstream, large: FakeUpstream
) -> None:
    small.script(CutAfter(events=2))
    answer = await router.chat(stream=True)
    assert answer.status_code == 200
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert len(events) == 3
    error = json.loads(events[-1])["error"]
    assert (error["type"], error["code"]) == ("server_error", "upstream_failed")
    assert "service small-predictor broke off its answer" in error["message"]
    assert len(small.requests) == 1, "an answer that has begun is never asked for again"
    assert router.in_flight() == 0
    assert await router.metric(
        "baseload_router_aborts_total", tier="small", version="stable", side="upstream"
    )


async def test_a_stream_cut_inside_a_chunk_and_an_event_still_ends_well_formed(
    start_router: Any, raw_upstream: Any
) -> None:
    upstream = await raw_upstream(always(CHUNKED + b'ff\r\ndata: {"half', close=True))
    router = await start_router({"small-predictor": [upstream.url]})
    connection = await router.connect()
    connection.send(post())
    await connection.head()
    body = dechunked(await connection.rest())
    assert body.startswith(b'data: {"half\n\ndata: {"error": ')
    assert body.endswith(b"\n\n")


async def test_an_answer_that_is_no_stream_is_cut_when_its_upstream_dies(
    start_router: Any, raw_upstream: Any
) -> None:
    for head in (
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n",
        SSE + b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n64\r\n",
    ):
        upstream = await raw_upstream(always(head + b"{", close=True))
        router = await start_router({"small-predictor": [upstream.url]})
        with pytest.raises(httpx2.RemoteProtocolError):
            await router.chat()
        assert router.in_flight() == 0


async def test_an_upstream_that_does_not_answer_in_time_is_504(router: Any, small: FakeUpstream) -> None:
    small.script(Hang())
    asked = asyncio.create_task(router.chat())
    (request,) = await small.arrived(1)
    router.pass_time(119.9)
    assert not request.disconnected.is_set()
    router.pass_time(0.2)
    answer = await asked
    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "upstream_timeout"
    assert answer.headers["x-baseload-tier"] == "small"
    assert answer.headers["x-baseload-endpoint"] == f"127.0.0.1:{small.port}"
    assert await request.until_disconnected()
    assert router.in_flight() == 0


async def test_a_stream_that_falls_silent_ends_with_an_error_event(router: Any, small: FakeUpstream) -> None:
    small.script(Hang(after_events=1))
    connection = await router.connect()
    connection.send(post())
    await connection.reader.readuntil(b"t0 ")
    router.pass_time(121)
    assert b'"code": "upstream_timeout"' in await connection.rest()
    assert await small.requests[0].until_disconnected()


async def test_a_reply_without_framing_is_framed_for_the_client(start_router: Any, raw_upstream: Any) -> None:
    upstream = await raw_upstream(always(SSE + b"\r\ndata: a\n\n", close=True))
    router = await start_router({"small-predictor": [upstream.url]})
    answer = await router.chat()
    assert (answer.text, answer.headers["transfer-encoding"]) == ("data: a\n\n", "chunked")


async def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection(
    router: Any, small: FakeUpstream
) -> None:
    small.script(Reply(events=["a"]), CutAfter(events=0))
    connection = await router.connect()
    connection.send(post(version="1.0"))
    assert "transfer-encoding" not in await connection.head()
    assert await connection.rest() == b"data: a\n\n"
    connection = await router.connect()
    connection.send(post(version="1.0"))
    await connection.head()
    assert (await connection.rest()).startswith(b'\n\ndata: {"error"')


async def test_an_answer_without_a_body_has_none(start_router: Any, raw_upstream: Any) -> None:
    upstream = await raw_upstream(always(b"HTTP/1.1 204 No Content\r\nx-up: 1\r\n\r\n"))
    router = await start_router({"small-predictor": [upstream.url]})
    answer = await router.chat()
    assert (answer.status_code, answer.content, answer.headers["x-up"]) == (204, b"", "1")


class Firehose:
    """A raw upstream's handler that sends many megabytes, and knows how far it has got."""

    size = 64 * 1024 * 1024

    def __init__(self) -> None:
        self.sent = 0
        self.stuck = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, _request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % self.size)
        try:
            while self.sent < self.size:
                writer.write(b"x" * 65536)
                self.sent += 65536
                if self.sent > 16 * 1024 * 1024:
                    self.stuck.set()
                await writer.drain()
        except ConnectionError:
            self.gone.set()
            raise


async def until_stalled(router: Any, firehose: Firehose) -> None:
    """Wait until nothing moves any more: the router has stopped reading."""
    sent = -1
    while sent != firehose.sent or firehose.sent == 0:
        sent = firehose.sent
        for _ in range(200):
            await asyncio.sleep(0)


async def test_a_slow_client_slows_the_upstream_and_gets_everything(
    start_router: Any, raw_upstream: Any
) -> None:
    firehose = Firehose()
    router = await start_router({"small-predictor": [(await raw_upstream(firehose)).url]})
    connection = await router.connect()
    connection.send(post())
    await connection.head()
    await until_stalled(router, firehose)
    assert firehose.sent < Firehose.size / 2
    assert len(await connection.reader.readexactly(Firehose.size)) == Firehose.size
    connection.send(b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n")
    assert (await connection.response())[0] == 200


async def test_a_client_that_takes_nothing_is_dropped_and_its_upstream_freed(
    start_router: Any, raw_upstream: Any
) -> None:
    firehose = Firehose()
    router = await start_router({"small-predictor": [(await raw_upstream(firehose)).url]})
    connection = await router.connect()
    connection.send(post())
    await connection.head()
    await until_stalled(router, firehose)
    router.pass_time(61)
    async with asyncio.timeout(5):
        await firehose.gone.wait()
    assert router.in_flight() == 0
