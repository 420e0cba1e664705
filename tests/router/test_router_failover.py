"""Endpoints: which one is called, what happens when one fails, and how their set changes."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from baseload_client.testing import CloseBeforeReply, FakeUpstream, Gate, Hang, Reply
from baseload_router.pool import Endpoint


@pytest.fixture
def other() -> Iterator[FakeUpstream]:
    with FakeUpstream() as upstream:
        yield upstream


@pytest.fixture
def dead_url() -> Iterator[str]:
    """An address where connecting is refused: bound, so that nobody else takes it, but not listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


async def retries(router: Any, kind: str) -> float:
    found: float = await router.metric(
        "baseload_router_retries_total", tier="small", version="stable", kind=kind
    )
    return found


async def test_a_dead_endpoint_is_passed_over_and_then_left_alone_for_a_while(
    start_router: Any, small: FakeUpstream, dead_url: str
) -> None:
    router = await start_router({"small-predictor": [dead_url, small.url]})
    answers = [await router.chat() for _ in range(20)]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["x-baseload-endpoint"] for answer in answers} == {f"127.0.0.1:{small.port}"}
    assert await retries(router, "other endpoint") == 1
    router.clock.advance(1.1)
    for _ in range(20):
        await router.chat()
    assert await retries(router, "other endpoint") == 2
    assert router.in_flight() == 0


async def test_an_endpoint_that_closes_before_a_byte_is_retried_on_another(
    start_router: Any, small: FakeUpstream, other: FakeUpstream
) -> None:
    router = await start_router({"small-predictor": [small.url, other.url]})
    small.default = other.default = CloseBeforeReply()
    answer = await router.chat()
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_failed"
    assert len(small.requests) == len(other.requests) == 1, "one retry, and never on the same endpoint"
    small.default = other.default = Reply()
    small.script(CloseBeforeReply())
    other.script(CloseBeforeReply())
    assert (await router.chat()).status_code == 502
    assert (await router.chat()).status_code == 200


async def test_a_marked_retry_is_not_retried(
    start_router: Any, small: FakeUpstream, other: FakeUpstream
) -> None:
    router = await start_router({"small-predictor": [small.url, other.url]})
    small.default = other.default = CloseBeforeReply()
    answer = await router.chat(headers={"x-retry-attempt": "1"})
    assert answer.status_code == 502
    (seen,) = small.requests + other.requests
    assert seen.headers["x-retry-attempt"] == "1"


async def test_a_status_is_an_answer_and_never_retried(
    start_router: Any, small: FakeUpstream, other: FakeUpstream
) -> None:
    router = await start_router({"small-predictor": [small.url, other.url]})
    small.default = other.default = Reply(status=503, headers={"retry-after": "7"})
    answer = await router.chat()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert len(small.requests + other.requests) == 1


async def test_without_another_endpoint_the_failure_is_told(start_router: Any, dead_url: str) -> None:
    router = await start_router({"small-predictor": [dead_url]})
    answer = await router.chat()
    assert answer.status_code == 502
    where = dead_url.removeprefix("http://")
    assert answer.json()["error"]["message"].startswith(
        f"endpoint {where} of service small-predictor failed before it answered: it could not be reached"
    )
    assert answer.headers["x-baseload-endpoint"] == where
    assert router.in_flight() == 0


@pytest.mark.parametrize("headers", [{}, {"x-retry-attempt": "1"}])
async def test_a_stale_connection_is_replaced_even_for_a_marked_retry(
    router: Any, small: FakeUpstream, headers: dict[str, str]
) -> None:
    small.script(Reply(), CloseBeforeReply(), Reply())
    await router.chat()
    answer = await router.chat(headers=headers)
    assert answer.status_code == 200
    assert len(small.requests) == 3
    assert await retries(router, "stale connection") == 1


async def test_an_idle_connection_that_its_endpoint_closes_is_forgotten(
    router: Any, small: FakeUpstream
) -> None:
    await router.chat()
    await asyncio.to_thread(small.stop)
    await asyncio.to_thread(small.start)
    assert (await router.chat()).status_code == 200
    assert await retries(router, "stale connection") == 0


async def test_connections_are_kept_alive(start_router: Any, raw_upstream: Any) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    upstream = await raw_upstream(answer)
    router = await start_router({"small-predictor": [upstream.url]})
    for _ in range(5):
        assert (await router.chat()).content == b"{}"
    assert upstream.connections == 1


async def test_an_endpoint_that_cannot_be_reached_in_time_is_502(
    router: Any, small: FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialling = asyncio.Event()

    async def never(_self: Endpoint) -> None:
        dialling.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Endpoint, "connect", never)
    asked = asyncio.create_task(router.chat())
    await dialling.wait()
    router.pass_time(5.1)
    answer = await asked
    assert answer.status_code == 502
    assert "could not be reached in time" in answer.json()["error"]["message"]


async def test_a_client_that_leaves_while_the_router_dials_leaves_nothing_behind(
    router: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialling = asyncio.Event()
    given_up = asyncio.Event()

    async def never(_self: Endpoint) -> None:
        dialling.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    monkeypatch.setattr(Endpoint, "connect", never)
    asked = asyncio.create_task(router.chat())
    await dialling.wait()
    asked.cancel()
    async with asyncio.timeout(5):
        await given_up.wait()
    assert router.in_flight() == 0


async def test_the_least_loaded_endpoint_is_called(
    start_router: Any, small: FakeUpstream, other: FakeUpstream
) -> None:
    gate = Gate()
    small.default = other.default = Reply(gate=gate)
    router = await start_router({"small-predictor": [small.url, other.url]})
    asked = [asyncio.create_task(router.chat()) for _ in range(6)]
    await asyncio.gather(small.arrived(3), other.arrived(3))
    gate.open()
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
    assert len(small.requests) == len(other.requests) == 3


async def test_at_capacity_everywhere_the_answer_is_429_until_there_is_room(
    start_router: Any, small: FakeUpstream
) -> None:
    gate = Gate()
    small.script(Reply(gate=gate), Reply(gate=gate))
    router = await start_router({"small-predictor": [small.url]}, capacity=2)
    asked = [asyncio.create_task(router.chat()) for _ in range(2)]
    await small.arrived(2)
    answer = await router.chat()
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["x-baseload-tier"] == "small"
    assert answer.json()["error"]["type"] == "rate_limit_error"
    gate.open()
    await asyncio.gather(*asked)
    assert (await router.chat()).status_code == 200


async def test_a_service_without_endpoints_is_503(router: Any, large: FakeUpstream) -> None:
    router.set_endpoints({"small-predictor": [], "large-predictor": [large.url]})
    answer = await router.chat()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    message = "no ready endpoint for service small-predictor (tier small)"
    assert answer.json()["error"]["message"] == message
    assert (await router.chat("large")).status_code == 200


async def test_an_endpoint_that_is_removed_finishes_its_stream_and_gets_nothing_new(
    router: Any, small: FakeUpstream, other: FakeUpstream
) -> None:
    await router.chat()
    gate = Gate()
    small.script(Reply(tokens=["a", "b"], gate=gate, gate_after=1))
    ask = {"model": "small", "stream": True}
    async with router.client.stream("POST", "/v1/chat/completions", json=ask) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        router.set_endpoints({"small-predictor": [other.url]})
        assert (await router.chat()).headers["x-baseload-endpoint"] == f"127.0.0.1:{other.port}"
        gate.open()
        assert [line async for line in lines][-2] == "data: [DONE]"
    assert len(small.requests) == 2


async def test_a_removed_endpoint_that_returns_is_a_new_one(router: Any, small: FakeUpstream) -> None:
    small.script(Hang())
    asked = asyncio.create_task(router.chat())
    await small.arrived(1)
    router.set_endpoints({"small-predictor": []})
    router.set_endpoints({"small-predictor": [small.url]}, capacity=1)
    assert (await router.chat()).status_code == 200
    asked.cancel()
    assert await small.requests[0].until_disconnected()
    assert router.in_flight() == 0
