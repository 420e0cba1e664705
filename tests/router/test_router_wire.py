"""The bytes on both sides: pipelining, deadlines, limits, and upstreams that talk nonsense."""

import asyncio
import json
import socket
from typing import Any

import pytest

from baseload_client.testing import FakeUpstream, Gate, Hang, Reply
from baseload_router.core.policy import Policy

READYZ = b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n"


def post(body: bytes = b'{"model": "small"}', extra: bytes = b"") -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\n%bcontent-length: %d\r\n\r\n"
    return head % (extra, len(body)) + body


async def test_pipelined_requests_are_answered_in_order(router: Any, small: FakeUpstream) -> None:
    gate = Gate()
    small.script(Reply(gate=gate, body={"n": 1}), Reply(body={"n": 2}))
    connection = await router.connect()
    connection.send(post() + READYZ + post() + b"GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n")
    await small.arrived(1)
    assert len(small.requests) == 1
    gate.open()
    answers = [await connection.response() for _ in range(4)]
    assert [status for status, _, _ in answers] == [200, 200, 200, 404]
    assert [json.loads(answers[index][2]) for index in (0, 2)] == [{"n": 1}, {"n": 2}]


async def test_a_thousand_pipelined_requests_are_answered(router: Any) -> None:
    connection = await router.connect()
    connection.send(READYZ * 1000)
    for _ in range(1000):
        assert (await connection.response())[0] == 200


async def test_a_client_that_pipelines_without_reading_is_not_served_ahead(router: Any) -> None:
    connection = await router.connect(receive_buffer=8192)
    connection.send(READYZ)
    await connection.response()
    (served,) = router.server._connections
    served.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    connection.send(READYZ * 50_000)
    for _ in range(3000):
        await asyncio.sleep(0)
    assert 0 < served.transport.get_write_buffer_size() < 100_000
    assert not served._reading
    for _ in range(50_000):
        assert (await connection.response())[0] == 200


async def test_the_connection_closes_when_the_client_asks_for_it(router: Any) -> None:
    connection = await router.connect()
    connection.send(b"GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
    _, headers, _ = await connection.response()
    assert headers["connection"] == "close"
    assert await connection.rest() == b""


@pytest.mark.parametrize(
    "smuggled",
    [
        b"transfer-encoding: chunked\r\n",
        b"content-length: 0\r\n",
        b"transfer-encoding: xchunked\r\n",
        b"transfer-encoding : chunked\r\n",
    ],
)
async def test_a_request_with_two_lengths_is_400_and_nothing_goes_on(
    router: Any, small: FakeUpstream, smuggled: bytes
) -> None:
    connection = await router.connect()
    connection.send(post(b"0\r\n\r\n" + READYZ, extra=smuggled))
    status, headers, body = await connection.response()
    assert (status, headers["connection"]) == (400, "close")
    assert json.loads(body)["error"]["code"] == "malformed_request"
    assert await connection.rest() == b""
    assert small.requests == []


async def test_a_bad_request_behind_a_good_one_is_refused_after_it(router: Any, small: FakeUpstream) -> None:
    gate = Gate()
    small.script(Reply(gate=gate))
    connection = await router.connect()
    connection.send(post() + b"nonsense\r\n\r\n")
    await small.arrived(1)
    connection.send(post())
    gate.open()
    assert (await connection.response())[0] == 200
    assert (await connection.response())[0] == 400
    assert await connection.rest() == b""
    assert len(small.requests) == 1


async def test_a_head_over_the_limit_is_431(router: Any) -> None:
    connection = await router.connect()
    connection.send(b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 70_000 + b"\r\n\r\n")
    assert (await connection.response())[0] == 431


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [(b"", 10), (b"POST /v1/", 10), (post()[:-3], 60)],
    ids=["nothing", "head", "body"],
)
async def test_a_request_that_does_not_arrive_in_time_is_ended(
    router: Any, sent: bytes, seconds: float
) -> None:
    connection = await router.connect()
    connection.send(READYZ if sent else b"")
    if sent:
        await connection.response()
        connection.send(sent)
    await settled()
    router.pass_time(seconds - 0.1)
    await settled()
    assert not connection.reader.at_eof()
    router.pass_time(0.2)
    answer = await connection.rest()
    assert answer.startswith(b"HTTP/1.1 408 ") if sent else answer == b""


async def test_a_body_has_a_time_of_its_own_after_its_head(router: Any) -> None:
    connection = await router.connect()
    whole = post()
    for piece in (whole[:20], whole[20:-3]):
        connection.send(piece)
        await settled()
        router.pass_time(9)
    router.pass_time(50)
    connection.send(whole[-3:])
    assert (await connection.response())[0] == 200


async def settled() -> None:
    """Let everything that has been sent be read."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_head_that_trickles_in_does_not_extend_its_time(router: Any) -> None:
    connection = await router.connect()
    for piece in (b"GET / HT", b"TP/1.1\r\n", b"host: a\r\n"):
        connection.send(piece)
        await settled()
        router.pass_time(4)
    assert (await connection.response())[0] == 408


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not(router: Any, small: FakeUpstream) -> None:
    idle, busy = await router.connect(), await router.connect()
    idle.send(READYZ)
    await idle.response()
    gate = Gate()
    small.script(Reply(gate=gate))
    busy.send(post())
    await small.arrived(1)
    router.clock.advance(100)
    await settled()
    router.pass_time(0)
    assert not idle.reader.at_eof()
    router.pass_time(81)
    assert await idle.rest() == b""
    assert (await busy.response())[0] == 504


async def test_a_client_that_waits_for_100_continue_gets_it(router: Any, small: FakeUpstream) -> None:
    connection = await router.connect()
    whole = post(extra=b"expect: 100-continue\r\n")
    connection.send(whole[:-18])
    assert await connection.head() == "HTTP/1.1 100 Continue\r\n\r\n"
    connection.send(whole[-18:])
    assert (await connection.response())[0] == 200
    assert "expect" not in small.requests[0].headers


async def test_one_connection_too_many_is_told_so(start_router: Any, small: FakeUpstream) -> None:
    router = await start_router({"small-predictor": [small.url]}, policy=Policy(max_connections=1))
    first = await router.connect()
    first.send(READYZ)
    await first.response()
    second = await router.connect()
    status, headers, _ = await second.response()
    assert (status, headers["retry-after"]) == (503, "1")
    assert await second.rest() == b""
    first.abort()
    await settled()
    third = await router.connect()
    third.send(READYZ)
    assert (await third.response())[0] == 503


@pytest.mark.parametrize(
    "nonsense",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
)
async def test_an_upstream_that_talks_nonsense_is_502(
    start_router: Any, raw_upstream: Any, nonsense: bytes
) -> None:
    async def handler(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(nonsense)

    router = await start_router({"small-predictor": [(await raw_upstream(handler)).url]})
    assert (await router.chat()).status_code == 502
    assert router.in_flight() == 0


async def test_bytes_behind_an_answer_never_reach_a_client(start_router: Any, raw_upstream: Any) -> None:
    async def handler(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n\r\nevil")

    upstream = await raw_upstream(handler)
    router = await start_router({"small-predictor": [upstream.url]})
    for _ in range(3):
        answer = await router.chat()
        assert (answer.status_code, answer.content) == (200, b"{}")
        assert "link" not in answer.headers
    assert upstream.connections == 3, "a connection that is out of step is not used again"


async def test_an_unasked_for_answer_on_a_kept_connection_ends_it(
    start_router: Any, raw_upstream: Any
) -> None:
    unasked = asyncio.Event()

    async def handler(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await unasked.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")

    upstream = await raw_upstream(handler)
    router = await start_router({"small-predictor": [upstream.url]})
    await router.chat()
    unasked.set()
    await settled()
    assert (await router.chat()).content == b"{}"
    assert upstream.connections == 2


async def test_draining_ends_idle_connections_and_lets_requests_finish(
    router: Any, small: FakeUpstream
) -> None:
    idle, busy, reading = [await router.connect() for _ in range(3)]
    idle.send(READYZ)
    await idle.response()
    gate = Gate()
    small.script(Reply(gate=gate), Reply())
    busy.send(post())
    reading.send(post()[:-3])
    await small.arrived(1)
    drained = asyncio.create_task(router.server.drain(30.0))
    assert await idle.rest() == b""
    reading.send(post()[-3:])
    gate.open()
    for connection in (busy, reading):
        status, headers, _ = await connection.response()
        assert (status, headers["connection"]) == (200, "close")
    assert await drained == 0


async def test_what_does_not_finish_within_the_grace_period_is_cut(router: Any, small: FakeUpstream) -> None:
    small.script(Hang())
    connection = await router.connect()
    connection.send(post())
    (request,) = await small.arrived(1)
    assert await router.server.drain(0.0) == 1
    assert await request.until_disconnected()
