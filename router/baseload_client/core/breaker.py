"""A circuit breaker as a state machine that is told the time.

Theory of operation. Names and semantics are resilience4j's (CircuitBreaker, count-based sliding window).

- closed: every call gets a permit. The last ``window`` outcomes are kept; once ``minimum_calls`` of them are
  there and the share of failures is ``failure_rate`` or more, the breaker opens.
- open: every call is rejected until ``open_s`` have passed. The first call after that finds it half-open.
- half_open: ``half_open_calls`` probes may run. When all of them are recorded, the same rate decides: closed
  or open again. A probe that is ignored (cancelled, or answered with a business error) gives its permit
  back, so a recovery is never decided by calls that say nothing about the target. A probe that is silent
  for ``max_wait_in_half_open_s`` loses its permit to the next caller, so a hung probe cannot block
  recovery.

Every permit carries the generation in which it was given; a transition starts a new generation. An outcome
that arrives in a later generation changes nothing: a success that was begun before the trip cannot close an
open breaker, and a failure from before the recovery cannot trip a healthy one. Settling a permit twice is
harmless.

A breaker that several threads share needs a ``guard`` that lets one of them in at a time:
``threading.RLock``, re-entrant because the garbage collector may close an abandoned call, and so settle its
permit, at any moment. Within one thread, asyncio included, it needs none.
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

Guard = Callable[[], AbstractContextManager[object]]
"""Makes a context manager that one thread at a time may be in, such as ``threading.RLock``."""


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class BreakerConfig:
    """When a breaker trips and how it recovers. Durations are seconds."""

    failure_rate: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Share of failures in the window, from which on the breaker opens."""
    window: Annotated[int, Field(ge=1, le=10_000)] = 10
    """How many of the last calls count."""
    minimum_calls: Annotated[int, Field(ge=1)] = 10
    """Calls recorded before the rate means anything; never more than ``window``."""
    open_s: Annotated[float, Field(gt=0)] = 30.0
    """How long calls are rejected before a probe may go."""
    half_open_calls: Annotated[int, Field(ge=1)] = 3
    """Probes that decide a recovery."""
    max_wait_in_half_open_s: Annotated[float, Field(gt=0)] = 60.0
    """How long a probe may be silent before its permit goes to another call."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The call must not go out. ``retry_at``: monotonic seconds of the earliest moment to ask again."""

    retry_at: float
    reason: str


class Permit:
    """The right to make one call; settle it exactly once with ``success``, ``failure`` or ``ignore``."""

    __slots__ = ("_breaker", "generation", "settled")

    def __init__(self, breaker: "Breaker", generation: int) -> None:
        self._breaker = breaker
        self.generation = generation
        self.settled = False

    def success(self, now: float) -> None:
        """The target did its work."""
        self._breaker.settle(self, now, failed=False)

    def failure(self, now: float, kind: str) -> None:
        """The target failed; ``kind`` is told to those who are rejected later, such as ``connect``."""
        self._breaker.settle(self, now, failed=True, kind=kind)

    def ignore(self, now: float) -> None:
        """The call says nothing about the target: it was cancelled, limited or wrong in itself."""
        self._breaker.settle(self, now, failed=None)


class _Window:
    """The outcomes of the last ``size`` calls."""

    __slots__ = ("_outcomes", "failures")

    def __init__(self, size: int) -> None:
        self._outcomes: deque[bool] = deque(maxlen=size)
        self.failures = 0

    def __len__(self) -> int:
        return len(self._outcomes)

    def record(self, failed: bool) -> None:
        outcomes = self._outcomes
        if len(outcomes) == outcomes.maxlen:
            self.failures -= outcomes[0]
        outcomes.append(failed)
        self.failures += failed


class Breaker:
    """One target's breaker. ``now`` is always monotonic seconds of one clock."""

    __slots__ = (
        "_config", "_failure_kind", "_generation", "_guard", "_leases", "_open_until", "_state", "_window"
    )  # fmt: skip

    def __init__(self, config: BreakerConfig, *, guard: Guard = nullcontext) -> None:
        self._config = config
        self._guard = guard()
        self._state = State.CLOSED
        self._generation = 0
        self._window = _Window(config.window)
        self._open_until = 0.0
        self._leases: dict[Permit, float] = {}
        self._failure_kind = ""

    def __repr__(self) -> str:
        window = self._window
        return f"<Breaker {self._state} failures={window.failures}/{len(window)}>"

    @property
    def recorded(self) -> int:
        """How many outcomes the current window holds."""
        return len(self._window)

    def state(self, now: float) -> State:
        """The state that a call made at ``now`` would find."""
        if self._state is State.OPEN and now >= self._open_until:
            return State.HALF_OPEN
        return self._state

    def try_acquire(self, now: float) -> Permit | Rejected:
        """A permit for one call, or the reason and the time until which there is none."""
        with self._guard:
            if self._state is State.CLOSED:
                return Permit(self, self._generation)
            if self._state is State.OPEN:
                if now < self._open_until:
                    return Rejected(self._open_until, f"open after {self._failure_kind}")
                self._enter(State.HALF_OPEN, self._config.half_open_calls)
            return self._probe(now)

    def _probe(self, now: float) -> Permit | Rejected:
        leases = self._leases
        free = self._config.half_open_calls - len(self._window) - len(leases)
        if free <= 0:
            hung = [permit for permit, expires_at in leases.items() if expires_at <= now]
            if not hung:
                return Rejected(min(leases.values()), "half_open with every probe in flight")
            leases.pop(hung[0], None)
        permit = Permit(self, self._generation)
        leases[permit] = now + self._config.max_wait_in_half_open_s
        return permit

    def settle(self, permit: Permit, now: float, *, failed: bool | None, kind: str = "") -> None:
        """What permits call. ``failed`` None: nothing is recorded."""
        with self._guard:
            if permit.settled or permit.generation != self._generation:
                return
            permit.settled = True
            if self._state is State.HALF_OPEN and self._leases.pop(permit, None) is None:
                return  # its lease ran out and another probe has its place
            if failed is None:
                return
            if failed:
                self._failure_kind = kind
            self._window.record(failed)
            self._decide(now)

    def _decide(self, now: float) -> None:
        config, window = self._config, self._window
        half_open = self._state is State.HALF_OPEN
        needed = config.half_open_calls if half_open else min(config.minimum_calls, config.window)
        if len(window) < needed:
            return
        if window.failures / len(window) >= config.failure_rate:
            self._open_until = now + config.open_s
            self._enter(State.OPEN, config.window)
        elif half_open:
            self._enter(State.CLOSED, config.window)

    def _enter(self, state: State, window: int) -> None:
        self._state = state
        self._generation += 1
        self._window = _Window(window)
        self._leases = {}
