"""httpx2 transports that retry and fall back. They sit under the OpenAI SDK, or under any other httpx2
client.

http = httpx2.Client(transport=ResilientTransport(base_url="http://127.0.0.1:8080/v1"))
"""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from functools import lru_cache
from threading import RLock
from typing import Generic, TypeVar, cast

import httpx2
from tenacity import stop_after_attempt, wait_none, wait_random_exponential
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

from baseload_client.backoff import TenacityBackoff
from baseload_client.clock import Clock, SystemClock
from baseload_client.core.attempts import Limits, Plan, Result, Send, Sleep, Slept, attempts
from baseload_client.core.budget import BudgetConfig, RetryBudget
from baseload_client.core.outcomes import Outcome
from baseload_client.core.registry import BreakerRegistry
from baseload_client.exchange import Exchange
from baseload_client.policy import ClientPolicy
from baseload_client.streams import AsyncGuardedStream, GuardedStream

InnerT = TypeVar("InnerT", httpx2.BaseTransport, httpx2.AsyncBaseTransport)


@lru_cache(maxsize=64)
def process_budget(config: BudgetConfig) -> RetryBudget:
    """The retry budget that all clients of this process with the same budget settings share."""
    return RetryBudget(config, guard=RLock)


def _advance(plan: Plan, done: Outcome | Slept | None) -> Send | Sleep | Result:
    try:
        return next(plan) if done is None else plan.send(done)
    except StopIteration as stop:
        return cast(Result, stop.value)


class _Resilient(Generic[InnerT]):
    """What both transports hold. ``inner`` does the sending, by default over a bounded connection pool.

    base_url: what requests are made under, up to ``/v1``. policy: by default from the environment.
    breakers, budget: to share with others; by default breakers of its own and the process's budget.
    wait, stop: tenacity's objects in place of the policy's full jitter and number of attempts.
    """

    def __init__(
        self,
        *,
        base_url: str,
        policy: ClientPolicy | None = None,
        breakers: BreakerRegistry | None = None,
        budget: RetryBudget | None = None,
        wait: WaitBaseT | None = None,
        stop: StopBaseT | None = None,
        clock: Clock | None = None,
        inner: InnerT | None = None,
    ) -> None:
        self.policy = policy = policy or ClientPolicy()
        # An empty registry is false, so only None means "none given".
        self.breakers = BreakerRegistry(policy.breaker, guard=RLock) if breakers is None else breakers
        self.budget = process_budget(policy.budget) if budget is None else budget
        self._base_url = base_url.rstrip("/")
        self._clock = clock or SystemClock()
        self._backoff = TenacityBackoff(
            wait or wait_random_exponential(multiplier=policy.backoff_initial_s, max=policy.backoff_max_s),
            stop or stop_after_attempt(policy.max_attempts),
        )
        self._once = TenacityBackoff(wait_none(), stop_after_attempt(1))
        pool = httpx2.Limits(
            max_connections=policy.max_connections, max_keepalive_connections=policy.max_keepalive_connections
        )
        self._inner: InnerT = inner or self._pooled(pool)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._base_url} {self.budget!r} breakers={len(self.breakers)}>"

    def _pooled(self, limits: httpx2.Limits) -> InnerT:
        raise NotImplementedError

    def _begin(self, request: httpx2.Request) -> tuple[Exchange, Plan]:
        exchange = Exchange(request, base_url=self._base_url, policy=self.policy, clock=self._clock)
        limits = Limits(
            deadline=exchange.deadline,
            attempt_timeout_s=self.policy.attempt_timeout_s,
            max_wait_s=self.policy.backoff_max_s,
        )
        plan = attempts(
            exchange.chain,
            started=exchange.started,
            limits=limits,
            backoff=self._backoff if exchange.replayable else self._once,
            breakers=self.breakers,
            budget=self.budget,
        )
        return exchange, plan


class ResilientTransport(_Resilient[httpx2.BaseTransport], httpx2.BaseTransport):
    """For ``httpx2.Client``; safe to use from many threads. Its arguments are listed at ``_Resilient``."""

    def _pooled(self, limits: httpx2.Limits) -> httpx2.BaseTransport:
        return httpx2.HTTPTransport(limits=limits)

    def close(self) -> None:
        self._inner.close()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange, plan = self._begin(request)
        with closing(plan):
            return exchange.answer(self._run(exchange, plan), GuardedStream)

    def _run(self, exchange: Exchange, plan: Plan) -> Result:
        step = _advance(plan, None)
        while not isinstance(step, Result):
            step = _advance(plan, self._do(exchange, step))
        return step

    def _do(self, exchange: Exchange, step: Send | Sleep) -> Outcome | Slept:
        if isinstance(step, Sleep):
            self._clock.sleep(step.seconds)
            return Slept(self._clock.now())
        try:
            ends = self._clock.now() + step.timeout_s
            return self._take(exchange, self._inner.handle_request(exchange.request_for(step)), ends)
        except httpx2.TransportError as error:
            return exchange.failed(error)

    def _take(self, exchange: Exchange, response: httpx2.Response, ends: float) -> Outcome:
        with ExitStack() as on_return:
            on_return.callback(response.close)
            pieces = iter(cast(httpx2.SyncByteStream, response.stream))
            body = exchange.opened(response)
            if body is None:
                return exchange.complete(response, b"".join(self._until(ends, pieces)))
            timed = self._until(ends, pieces)
            while body.waiting:
                body.hold_next(next(timed, None))
            body.sync = pieces
            outcome = exchange.streams(body)
            if outcome.streaming:
                on_return.pop_all()
            return outcome

    def _until(self, ends: float, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The pieces, for as long as the attempt may take: a read timeout alone is restarted by every
        piece."""
        for piece in pieces:
            if self._clock.now() >= ends:
                raise httpx2.ReadTimeout("the reply was not complete within the attempt's time")
            yield piece


class AsyncResilientTransport(_Resilient[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport):
    """For ``httpx2.AsyncClient`` on asyncio. Its arguments are listed at ``_Resilient``."""

    def _pooled(self, limits: httpx2.Limits) -> httpx2.AsyncBaseTransport:
        return httpx2.AsyncHTTPTransport(limits=limits)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange, plan = self._begin(request)
        with closing(plan):
            return exchange.answer(await self._run(exchange, plan), AsyncGuardedStream)

    async def _run(self, exchange: Exchange, plan: Plan) -> Result:
        step = _advance(plan, None)
        while not isinstance(step, Result):
            step = _advance(plan, await self._do(exchange, step))
        return step

    async def _do(self, exchange: Exchange, step: Send | Sleep) -> Outcome | Slept:
        if isinstance(step, Sleep):
            await self._clock.asleep(step.seconds)
            return Slept(self._clock.now())
        try:
            async with asyncio.timeout(step.timeout_s):
                response = await self._inner.handle_async_request(exchange.request_for(step))
                return await self._take(exchange, response)
        except TimeoutError:
            return exchange.failed(httpx2.ReadTimeout("the reply was not complete within the attempt's time"))
        except httpx2.TransportError as error:
            return exchange.failed(error)

    async def _take(self, exchange: Exchange, response: httpx2.Response) -> Outcome:
        async with AsyncExitStack() as on_return:
            on_return.push_async_callback(response.aclose)
            pieces = aiter(cast(httpx2.AsyncByteStream, response.stream))
            body = exchange.opened(response)
            if body is None:
                return exchange.complete(response, b"".join([piece async for piece in pieces]))
            while body.waiting:
                body.hold_next(await anext(pieces, None))
            body.later = pieces
            outcome = exchange.streams(body)
            if outcome.streaming:
                on_return.pop_all()
            return outcome
