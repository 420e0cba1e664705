"""Breakers by key in bounded memory."""

import pytest

from baseload_client.core.breaker import BreakerConfig, Permit, State
from baseload_client.core.registry import BreakerRegistry, TargetKey

CONFIG = BreakerConfig(window=1, minimum_calls=1, open_s=30.0)


def trip(registry: BreakerRegistry, key: TargetKey, now: float) -> None:
    permit = registry.get(key, now).try_acquire(now)
    assert isinstance(permit, Permit)
    permit.failure(now, "connect_error")


def key(number: int) -> TargetKey:
    return TargetKey("http://127.0.0.1:1/v1", f"model-{number}")


def test_same_key_gives_the_same_breaker_and_versions_are_apart() -> None:
    registry = BreakerRegistry(CONFIG)
    assert registry.get(key(1), 0.0) is registry.get(key(1), 0.0)
    assert registry.get(key(1), 0.0) is not registry.get(key(1)._replace(version="canary"), 0.0)


def test_least_recently_used_closed_breaker_goes_first() -> None:
    registry = BreakerRegistry(CONFIG, capacity=2)
    for number in (1, 2, 1, 3):
        registry.get(key(number), 0.0)
    assert key(1) in registry
    assert key(2) not in registry


def test_a_million_keys_leave_memory_bounded_and_open_breakers_kept() -> None:
    registry = BreakerRegistry(CONFIG, capacity=100)
    opened = [key(-number) for number in range(1, 51)]
    for dead in opened:
        trip(registry, dead, 0.0)
    for number in range(1_000_000):
        registry.get(number, 1.0)
    assert len(registry) == 100
    assert all(registry.states(1.0)[dead] is State.OPEN for dead in opened)


def test_open_breaker_may_go_once_its_wait_is_over() -> None:
    registry = BreakerRegistry(CONFIG, capacity=1)
    trip(registry, key(1), 0.0)
    registry.get(key(2), 30.0)
    assert key(2) in registry


def test_newcomer_among_only_open_breakers_is_served_and_not_kept() -> None:
    registry = BreakerRegistry(CONFIG, capacity=1)
    trip(registry, key(1), 0.0)
    assert isinstance(registry.get(key(2), 1.0).try_acquire(1.0), Permit)
    assert key(2) not in registry
    assert registry.states(1.0) == {key(1): State.OPEN}


def test_capacity_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="capacity is 0"):
        BreakerRegistry(capacity=0)
