"""The asynchronous client against a real socket, and what cancellation does to it."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from baseload_client import AsyncClient, AsyncResilientTransport, RetryBudget, State, TargetKey, resilience_of
from baseload_client.testing import FakeUpstream, Hang, Reply, VirtualClock

MakeAsyncClient = Callable[..., AsyncClient]

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
DOWN = Reply(status=503)


def breaker_of(client: AsyncClient, base_url: str, clock: VirtualClock) -> Any:
    transport: Any = client._client._transport
    return transport.breakers.get(TargetKey(base_url, "small"), clock.now())


async def test_falls_back_and_tells(upstream: FakeUpstream, make_async_client: MakeAsyncClient) -> None:
    upstream.script(DOWN, DOWN)
    completion = await make_async_client(upstream.base_url).chat.completions.create(model="large", **ASK)
    assert completion.choices[0].message.content == "reply from small"
    report = resilience_of(completion)
    assert report is not None
    assert (report.tier_served, report.downgraded, len(report.attempts)) == ("small", True, 3)


async def test_raw_response_carries_the_headers(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient
) -> None:
    raw = await make_async_client(upstream.base_url).chat.completions.with_raw_response.create(
        model="small", **ASK
    )
    assert raw.headers["x-baseload-tier-served"] == "small"
    assert raw.headers["x-baseload-downgraded"] == "false"


async def test_business_error_is_passed_on_at_once(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient
) -> None:
    upstream.script(Reply(status=400))
    with pytest.raises(openai.BadRequestError) as raised:
        await make_async_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    assert resilience_of(raised.value) is not None
    assert len(upstream.requests) == 1


async def test_silent_target_times_out_and_the_next_one_answers(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient
) -> None:
    upstream.script(Hang())
    client = make_async_client(upstream.base_url, attempt_timeout_s=0.3)
    completion = await client.chat.completions.create(model="small", **ASK)
    assert completion.choices[0].message.content == "reply from large"
    assert await upstream.requests[0].until_disconnected()


async def test_nobody_there_is_a_connection_error_that_lists_every_attempt(
    make_async_client: MakeAsyncClient,
) -> None:
    with FakeUpstream() as gone:
        base_url = gone.base_url
    with pytest.raises(openai.APIConnectionError, match="connect_error") as raised:
        await make_async_client(base_url).chat.completions.create(model="small", **ASK)
    assert resilience_of(raised.value) is not None


async def test_callers_own_time_limit_gets_its_timeout_error_after_one_attempt(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient
) -> None:
    upstream.default = Hang()
    client = make_async_client(upstream.base_url)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.chat.completions.create(model="small", **ASK), 0.5)
    assert len(upstream.requests) == 1
    assert await upstream.requests[0].until_disconnected()


async def test_a_hundred_cancellations_leave_the_window_empty(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock
) -> None:
    upstream.default = Hang()
    client = make_async_client(upstream.base_url)
    calls = [asyncio.create_task(client.chat.completions.create(model="small", **ASK)) for _ in range(100)]
    await upstream.arrived(100)
    for call in calls:
        call.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await _ends(calls))
    breaker = breaker_of(client, upstream.base_url, clock)
    assert (breaker.recorded, breaker.state(clock.now())) == (0, State.CLOSED)


async def test_cancelled_probes_give_way_to_three_good_ones_that_close_the_breaker(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock
) -> None:
    upstream.default = DOWN
    client = make_async_client(upstream.base_url, fallbacks={}, max_attempts=1)
    for _ in range(10):
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(model="small", **ASK)
    clock.advance(30.0)
    upstream.default = Hang()
    for number in range(11, 61):
        probe = asyncio.create_task(client.chat.completions.create(model="small", **ASK))
        await upstream.arrived(number)
        probe.cancel()
        await _ends([probe])
    upstream.default = Reply()
    breaker = breaker_of(client, upstream.base_url, clock)
    assert breaker.state(clock.now()) is State.HALF_OPEN
    for _ in range(3):
        await client.chat.completions.create(model="small", **ASK)
    assert breaker.state(clock.now()) is State.CLOSED


async def test_probes_that_hang_are_replaced_after_their_lease(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient, clock: VirtualClock
) -> None:
    upstream.default = DOWN
    client = make_async_client(upstream.base_url, fallbacks={}, max_attempts=1)
    for _ in range(10):
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(model="small", **ASK)
    clock.advance(30.0)
    upstream.default = Hang()
    hung = [asyncio.create_task(client.chat.completions.create(model="small", **ASK)) for _ in range(3)]
    await upstream.arrived(13)
    upstream.default = Reply()
    with pytest.raises(openai.APIConnectionError, match="every probe in flight"):
        await client.chat.completions.create(model="small", **ASK)
    clock.advance(60.0)
    for _ in range(3):
        await client.chat.completions.create(model="small", **ASK)
    assert breaker_of(client, upstream.base_url, clock).state(clock.now()) is State.CLOSED
    for call in hung:
        call.cancel()
    await _ends(hung)


async def test_twenty_concurrent_calls_make_exactly_their_attempts_each(
    upstream: FakeUpstream, make_async_client: MakeAsyncClient
) -> None:
    upstream.default = DOWN
    wide = {"window": 1000, "minimum_calls": 1000}
    client = make_async_client(upstream.base_url, fallbacks={}, max_attempts=3, breaker=wide)
    calls = [asyncio.create_task(client.chat.completions.create(model="small", **ASK)) for _ in range(20)]
    ends = await _ends(calls)
    assert all(isinstance(end, openai.InternalServerError) for end in ends)
    asked: dict[str, int] = {}
    for request in upstream.requests:
        name = request.headers["x-request-id"]
        asked[name] = asked.get(name, 0) + 1
    assert sorted(asked.values()) == [3] * 20


async def test_slow_reply_body_is_bounded_by_the_attempt(clock: VirtualClock) -> None:
    async def never(_request: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError

    transport = AsyncResilientTransport(
        base_url="http://x/v1", clock=clock, budget=RetryBudget(), inner=httpx2.MockTransport(never)
    )
    async with AsyncClient(base_url="http://x/v1", transport=transport, timeout=0.05) as client:
        with pytest.raises(openai.APITimeoutError, match="timeout"):
            await client.chat.completions.create(model="small", **ASK)


async def test_sdk_retries_on_top_are_refused() -> None:
    with pytest.raises(ValueError, match="max_attempts"):
        AsyncClient(max_retries=2)


async def _ends(calls: list[asyncio.Task[Any]]) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)
