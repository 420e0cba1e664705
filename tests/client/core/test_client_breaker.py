"""The breaker's state machine, by example and by random schedules."""

import random
import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from baseload_client.core.breaker import Breaker, BreakerConfig, Permit, Rejected, State

CONFIG = BreakerConfig(
    window=10, minimum_calls=10, open_s=30.0, half_open_calls=3, max_wait_in_half_open_s=60.0
)


def acquire(breaker: Breaker, now: float) -> Permit:
    permit = breaker.try_acquire(now)
    assert isinstance(permit, Permit), permit
    return permit


def rejected(breaker: Breaker, now: float) -> Rejected:
    rejection = breaker.try_acquire(now)
    assert isinstance(rejection, Rejected), rejection
    return rejection


def record(breaker: Breaker, now: float, failures: int, successes: int = 0) -> None:
    for _ in range(successes):
        acquire(breaker, now).success(now)
    for _ in range(failures):
        acquire(breaker, now).failure(now, "connect_error")


def tripped(config: BreakerConfig = CONFIG, now: float = 0.0) -> Breaker:
    breaker = Breaker(config)
    record(breaker, now, failures=config.window)
    assert breaker.state(now) is State.OPEN
    return breaker


def test_stays_closed_until_the_minimum_of_calls_is_recorded() -> None:
    breaker = Breaker(CONFIG)
    record(breaker, 0.0, failures=9)
    assert breaker.state(0.0) is State.CLOSED
    record(breaker, 0.0, failures=1)
    assert breaker.state(0.0) is State.OPEN


@pytest.mark.parametrize(("failures", "state"), [(5, State.CLOSED), (6, State.OPEN)])
def test_opens_at_the_failure_rate_and_not_below(failures: int, state: State) -> None:
    breaker = Breaker(CONFIG)
    record(breaker, 0.0, successes=10 - failures, failures=failures)
    assert breaker.state(0.0) is state


def test_rate_is_exact_where_the_product_of_floats_is_not() -> None:
    breaker = Breaker(BreakerConfig(failure_rate=0.55, window=100, minimum_calls=100))
    record(breaker, 0.0, successes=45, failures=55)
    assert breaker.state(0.0) is State.OPEN


def test_minimum_of_calls_never_exceeds_the_window() -> None:
    breaker = Breaker(BreakerConfig(window=2, minimum_calls=10))
    record(breaker, 0.0, failures=2)
    assert breaker.state(0.0) is State.OPEN


def test_old_outcomes_leave_the_window() -> None:
    breaker = Breaker(CONFIG)
    record(breaker, 0.0, failures=5, successes=5)
    record(breaker, 0.0, failures=0, successes=5)
    record(breaker, 0.0, failures=5)
    assert breaker.state(0.0) is State.CLOSED
    assert breaker.recorded == 10


def test_rejection_names_the_time_and_the_last_failure() -> None:
    breaker = tripped(now=5.0)
    assert rejected(breaker, 34.9) == Rejected(35.0, "open after connect_error")
    acquire(breaker, 35.0)


def test_half_open_lets_exactly_the_permitted_calls_through() -> None:
    breaker = tripped()
    for _ in range(3):
        acquire(breaker, 30.0)
    rejection = rejected(breaker, 31.0)
    assert rejection.retry_at == 90.0
    assert "in flight" in rejection.reason


@pytest.mark.parametrize(("failures", "state"), [(1, State.CLOSED), (2, State.OPEN)])
def test_half_open_decides_by_rate_once_all_probes_are_recorded(failures: int, state: State) -> None:
    breaker = tripped()
    probes = [acquire(breaker, 30.0) for _ in range(3)]
    for position, probe in enumerate(probes):
        assert breaker.state(31.0) is State.HALF_OPEN
        if position < failures:
            probe.failure(31.0, "timeout")
        else:
            probe.success(31.0)
    assert breaker.state(31.0) is state


def test_reopened_breaker_waits_anew() -> None:
    breaker = tripped()
    for _ in range(3):
        acquire(breaker, 30.0).failure(40.0, "timeout")
    assert rejected(breaker, 69.0) == Rejected(70.0, "open after timeout")


def test_settling_twice_counts_once() -> None:
    breaker = Breaker(CONFIG)
    permit = acquire(breaker, 0.0)
    permit.failure(0.0, "timeout")
    permit.failure(0.0, "timeout")
    permit.success(0.0)
    assert breaker.recorded == 1


def test_probe_that_answers_after_its_lease_ran_out_counts_for_nothing() -> None:
    breaker = tripped()
    hung = [acquire(breaker, 30.0) for _ in range(3)]
    fresh = acquire(breaker, 90.0)
    hung[0].failure(90.0, "timeout")
    assert breaker.recorded == 0
    fresh.success(90.0)
    assert breaker.recorded == 1


def test_repr_tells_the_state() -> None:
    assert repr(tripped()) == "<Breaker open failures=0/0>"


@pytest.mark.parametrize(
    "settings",
    [{"failure_rate": 0.0}, {"failure_rate": 1.1}, {"window": 0}, {"open_s": -1.0}, {"windows": 3}],
)
def test_config_refuses_what_cannot_work(settings: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(settings))):
        BreakerConfig(**settings)  # type: ignore[arg-type]  # wrong on purpose


@dataclass
class Schedule:
    """A random life of one breaker, with a model of what its probes may be."""

    breaker: Breaker
    config: BreakerConfig
    now: float = 0.0
    live: list[tuple[Permit, float, bool]] = field(default_factory=list)

    def call(self) -> None:
        half_open = self.breaker.state(self.now) is State.HALF_OPEN
        granted = self.breaker.try_acquire(self.now)
        if isinstance(granted, Permit):
            self.live.append((granted, self.now, half_open))
        else:
            assert granted.retry_at > self.now, "a rejection must name a later moment"
        if half_open:
            leased = [
                given
                for _, given, probe in self.live
                if probe and self.now < given + self.config.max_wait_in_half_open_s
            ]
            assert len(leased) <= self.config.half_open_calls

    def settle(self, choice: random.Random) -> None:
        if not self.live:
            return
        verdict = choice.choice(["success", "failure", "ignore", "hang"])
        if verdict == "hang":
            return
        permit = self.live.pop(choice.randrange(len(self.live)))[0]
        match verdict:
            case "success":
                permit.success(self.now)
            case "failure":
                permit.failure(self.now, "timeout")
            case "ignore":
                permit.ignore(self.now)
        if self.breaker.state(self.now) is not State.HALF_OPEN:
            self.live = [(permit, given, False) for permit, given, _ in self.live]


@given(
    seed=st.integers(0, 2**32), steps=st.integers(1, 120), probes=st.integers(1, 4), window=st.integers(1, 6)
)
def test_random_schedules_never_exceed_the_probes_and_never_wedge(
    seed: int, steps: int, probes: int, window: int
) -> None:
    config = BreakerConfig(
        window=window, minimum_calls=window, open_s=5.0, half_open_calls=probes, max_wait_in_half_open_s=7.0
    )
    choice = random.Random(seed)
    schedule = Schedule(Breaker(config), config)
    for _ in range(steps):
        match choice.choice(["call", "call", "settle", "advance"]):
            case "call":
                schedule.call()
            case "settle":
                schedule.settle(choice)
            case "advance":
                schedule.now += choice.choice([0.5, 4.0, 8.0])
    # Whatever is in flight hangs for ever and the target is well again. A last trip by what is in the
    # window is allowed; after that the open time and the leases end, and calls must get through.
    for _ in range(2):
        schedule.now += config.open_s + config.max_wait_in_half_open_s
        for _ in range(window + probes):
            granted = schedule.breaker.try_acquire(schedule.now)
            if isinstance(granted, Permit):
                granted.success(schedule.now)
    assert schedule.breaker.state(schedule.now) is State.CLOSED


def test_64_threads_released_at_once_get_exactly_the_permitted_probes() -> None:
    breaker = Breaker(CONFIG, guard=threading.RLock)
    record(breaker, 0.0, failures=10)
    barrier = threading.Barrier(64)
    granted: list[Permit] = []

    def ask() -> None:
        barrier.wait()
        answer = breaker.try_acquire(30.0)
        if isinstance(answer, Permit):
            granted.append(answer)

    threads = [threading.Thread(target=ask) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 3
