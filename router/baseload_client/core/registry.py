"""Breakers by key, in bounded memory.

Theory of operation. A least-recently-used map of at most ``capacity`` breakers. Forgetting a closed breaker
costs a few outcomes of history; forgetting an open one would send traffic to a dead target. So eviction
passes over breakers that are not closed, moving them to the young end (each costs one look a lap, not one a
call), and takes an open one only if its wait is over. If every breaker is open and still waiting, the
newcomer is served by a breaker that is not kept: memory stays bounded, open breakers stay open, and the
newcomer is merely unprotected until there is room.
"""

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import nullcontext
from typing import NamedTuple

from baseload_client.core.breaker import Breaker, BreakerConfig, Guard, State


class TargetKey(NamedTuple):
    """What fails together: an endpoint (base URL), a model and, where it is known, a version."""

    endpoint: str
    model: str
    version: str = ""


class BreakerRegistry:
    """One breaker a key; see the module for what is forgotten when there are more than ``capacity`` keys.

    guard: ``threading.RLock`` where threads share the registry or its breakers; see ``core.breaker``.
    """

    def __init__(
        self, config: BreakerConfig | None = None, *, capacity: int = 1024, guard: Guard = nullcontext
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}: a registry needs room for at least one breaker")
        self._config = config or BreakerConfig()
        self._capacity = capacity
        self._breakers: OrderedDict[Hashable, Breaker] = OrderedDict()
        self._new_guard = guard
        self._guard = guard()

    def __len__(self) -> int:
        return len(self._breakers)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._breakers

    def get(self, key: Hashable, now: float) -> Breaker:
        """The key's breaker, a fresh closed one at first. ``now``: monotonic seconds."""
        with self._guard:
            known = self._breakers.get(key)
            if known is not None:
                self._breakers.move_to_end(key)
                return known
            fresh = Breaker(self._config, guard=self._new_guard)
            if len(self._breakers) < self._capacity or self._evict(now):
                self._breakers[key] = fresh
            return fresh

    def states(self, now: float) -> dict[Hashable, State]:
        """Every kept breaker's state at ``now``, least recently used first."""
        with self._guard:
            return {key: breaker.state(now) for key, breaker in self._breakers.items()}

    def _evict(self, now: float) -> bool:
        return self._evict_one(now, {State.CLOSED}) or self._evict_one(now, {State.CLOSED, State.HALF_OPEN})

    def _evict_one(self, now: float, evictable: set[State]) -> bool:
        for _ in range(len(self._breakers)):
            key, breaker = self._breakers.popitem(last=False)
            if breaker.state(now) in evictable:
                return True
            self._breakers[key] = breaker
        return False
