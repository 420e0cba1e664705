"""The batcher's asyncio shell: requests wait at the gate until their batch leaves."""

import asyncio
from itertools import count

from baseload_predictors.core.batcher import Batcher, BatchLimits, Refused
from baseload_predictors.errors import QueueFullError
from baseload_predictors.metrics import PredictorMetrics


class Ticket:
    """The right to one slot of the engine. ``leave`` gives it back; a dropped ticket gives itself back.

    A reply that is never started (its client left first) drops its ticket wherever Python collects it.
    """

    __slots__ = ("_gate", "_key", "_loop")

    def __init__(self, gate: "Gate", key: int, loop: asyncio.AbstractEventLoop) -> None:
        self._gate = gate
        self._key: int | None = key
        self._loop = loop

    def leave(self) -> None:
        if self._key is not None:
            key, self._key = self._key, None
            self._gate.leave(key, self._loop)

    def __del__(self) -> None:
        if self._key is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._gate.leave, self._key, self._loop)


class Gate:
    """Lets requests through as the batcher says. Used on one event loop."""

    def __init__(self, limits: BatchLimits, metrics: PredictorMetrics) -> None:
        self._batcher = Batcher(limits)
        self._metrics = metrics
        self._keys = count()
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        metrics.watch(lambda: self._batcher.waiting, lambda: self._batcher.running)

    @property
    def waiting(self) -> int:
        return self._batcher.waiting

    @property
    def idle(self) -> bool:
        return not (self._batcher.waiting or self._batcher.running)

    async def enter(self) -> Ticket:
        """Wait for a slot. Raises QueueFullError at once when too many wait."""
        loop = asyncio.get_running_loop()
        key, begin = next(self._keys), loop.time()
        decision = self._batcher.add(key, begin)
        if isinstance(decision, Refused):
            self._metrics.refused.labels("queue_full").inc()
            raise QueueFullError(decision.reason, decision.retry_after)
        self._waiters[key] = loop.create_future()
        self._pump(loop)
        try:
            await self._waiters[key]
        except asyncio.CancelledError:
            self._batcher.cancel(key, loop.time())
            self._pump(loop)
            raise
        finally:
            del self._waiters[key]
        self._metrics.queue_wait.observe(loop.time() - begin)
        return Ticket(self, key, loop)

    def leave(self, key: int, loop: asyncio.AbstractEventLoop) -> None:
        self._batcher.done(key, loop.time())
        self._pump(loop)

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        while batch := self._batcher.poll(loop.time()):
            self._metrics.batch_size.labels(batch.reason).observe(len(batch.keys))
            for key in batch.keys:
                self._release(key)
        self._set_timer(loop)

    def _release(self, key: int) -> None:
        waiter = self._waiters[key]
        if not waiter.done():
            waiter.set_result(None)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        deadline = self._batcher.deadline()
        self._timer = None if deadline is None else loop.call_at(deadline, self._pump, loop)
