"""The batching layer in front of the engine, as a timed state machine.

Theory of operation. vLLM batches continuously: it has ``slots`` sequences that run together, and a
request that finds a free one starts at the next step. Waiting in front of it can only add latency, so
while the engine has a free slot and nobody waits, a request leaves at once.

When all slots run, requests gather here, in order, up to ``max_queue``; one more is refused, with the
time after which a place is likely. As slots free up, the waiting leave together: once there is room
for a group of ``max_batch_size`` (or for all that wait, if they are fewer), or ``max_wait`` seconds
after the first slot came free, whichever is first. So prefills share steps, and grouping never holds a
request longer than ``max_wait`` while a slot is idle.

The caller owns the clock: every method takes ``now`` in monotonic seconds. After ``add``, ``done`` or
``cancel``, and when ``deadline`` passes, it calls ``poll`` until that returns None.
"""

from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import Literal

FIRST_GUESS_S = 1.0
"""Service time assumed before the first request has finished, seconds."""
SMOOTHING = 0.1
"""Weight of the newest service time in the exponential average."""
RETRY_AFTER_CEILING_S = 60


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """slots: sequences the engine runs together. max_wait: seconds. max_queue: requests that may wait."""

    slots: int
    max_batch_size: int
    max_wait: float
    max_queue: int

    def __post_init__(self) -> None:
        for name in ("slots", "max_batch_size", "max_queue"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.max_wait < float("inf"):
            raise ValueError(f"max_wait must be a finite number of seconds >= 0, not {self.max_wait}")


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request waits; ``ahead`` others leave before it."""

    ahead: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The queue is full. ``retry_after``: whole seconds until a place is likely."""

    reason: str
    retry_after: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that leave together, and why now."""

    keys: tuple[int, ...]
    reason: Literal["slots free", "group full", "max wait"]


class Batcher:
    """The state machine. Keys are the caller's, unique among the requests it has not finished."""

    def __init__(self, limits: BatchLimits) -> None:
        self.limits = limits
        self._waiting: deque[int] = deque()
        self._running: dict[int, float] = {}
        self._gathering = False
        self._free_since: float | None = None
        self._service_s = FIRST_GUESS_S

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    def add(self, key: int, now: float) -> Admitted | Refused:
        """Queue ``key``, or refuse it when ``max_queue`` already wait and no slot is free."""
        if len(self._waiting) >= self.limits.max_queue:
            return Refused(f"{len(self._waiting)} requests already wait", self._retry_after())
        if self._free == 0:
            self._gathering = True
        self._waiting.append(key)
        self._note_free(now)
        return Admitted(len(self._waiting) - 1)

    def poll(self, now: float) -> Batch | None:
        """The next group to hand to the engine, or None if none may leave at ``now``."""
        reason = self._reason(now)
        if reason is None:
            return None
        size = min(self._free, len(self._waiting), self.limits.max_batch_size)
        keys = tuple(self._waiting.popleft() for _ in range(size))
        self._running.update(dict.fromkeys(keys, now))
        self._gathering = self._gathering and bool(self._waiting)
        self._free_since = None
        self._note_free(now)
        return Batch(keys, reason)

    def deadline(self) -> float | None:
        """When ``poll`` must be called again at the latest; None while only ``done`` can change it."""
        return None if self._free_since is None else self._free_since + self.limits.max_wait

    def done(self, key: int, now: float) -> None:
        """The engine has finished ``key`` (or it failed there): its slot is free."""
        self._service_s += SMOOTHING * (now - self._running.pop(key) - self._service_s)
        self._note_free(now)

    def cancel(self, key: int, now: float) -> None:
        """``key``'s caller has gone, whether it waits or runs. An aborted run tells no service time."""
        if key in self._running:
            del self._running[key]
        else:
            self._waiting.remove(key)
            self._gathering = self._gathering and bool(self._waiting)
        self._note_free(now)

    @property
    def _free(self) -> int:
        return self.limits.slots - len(self._running)

    def _note_free(self, now: float) -> None:
        if not (self._waiting and self._free):
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now

    def _reason(self, now: float) -> Literal["slots free", "group full", "max wait"] | None:
        if self._free_since is None:
            return None
        if not self._gathering:
            return "slots free"
        if self._free >= min(len(self._waiting), self.limits.max_batch_size):
            return "group full"
        return "max wait" if now >= self._free_since + self.limits.max_wait else None

    def _retry_after(self) -> int:
        """Little's law: those who wait leave at slots / service time a second."""
        seconds = len(self._waiting) * self._service_s / self.limits.slots
        return min(max(1, ceil(seconds)), RETRY_AFTER_CEILING_S)
