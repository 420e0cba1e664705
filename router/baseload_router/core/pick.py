"""Which endpoint of a service gets a request.

The endpoint with the least load in proportion to its capacity, so that a replica twice as large gets
twice the requests. Equals are drawn at random: several routers, or one that is mostly idle, spread
evenly.

An endpoint that could not be reached a moment ago is left alone until its cooling time is over, unless
nothing else has room: it has no load, so by load alone it would attract every request.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Candidate(Protocol):
    """An endpoint as the choice sees it."""

    @property
    def in_flight(self) -> int:
        """Requests that it serves now."""
        ...

    @property
    def capacity(self) -> int:
        """Requests that it may serve at once, 1 or more."""
        ...

    @property
    def cooling_until(self) -> float:
        """Monotonic time, in seconds, until which it is avoided."""
        ...


@dataclass(frozen=True, slots=True)
class Pick:
    """The chosen candidate's index, and why."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class AllAtCapacity:
    """No candidate has room."""

    reason: str


def pick(
    candidates: Sequence[Candidate], now: float, rng: Random, excluded: Collection[int] = ()
) -> Pick | AllAtCapacity:
    """The least loaded candidate with room. ``excluded`` are indices not to be chosen again."""
    if len(candidates) == 1 and not excluded and candidates[0].in_flight < candidates[0].capacity:
        return Pick(0, "the only endpoint")
    free = [
        index
        for index, candidate in enumerate(candidates)
        if index not in excluded and candidate.in_flight < candidate.capacity
    ]
    if not free:
        return AllAtCapacity(f"all {len(candidates)} endpoints are at capacity")
    warm = [index for index in free if candidates[index].cooling_until <= now]
    loads = [(candidates[index].in_flight / candidates[index].capacity, index) for index in warm or free]
    least = min(loads)[0]
    index = rng.choice([index for load, index in loads if load == least])
    reason = f"least load of {len(free)} with room" if warm else "none with room was reachable a moment ago"
    return Pick(index, reason)
