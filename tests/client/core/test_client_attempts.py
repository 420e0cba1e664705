"""The plan of a call, driven by hand: no transport, no clock but the numbers below."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_client.core.attempts import Limits, Plan, Result, Send, Sleep, Slept, Target, attempts
from baseload_client.core.breaker import BreakerConfig, Permit, Rejected, State
from baseload_client.core.budget import BudgetConfig, RetryBudget
from baseload_client.core.outcomes import Kind, Outcome
from baseload_client.core.registry import BreakerRegistry

ROUTER = "http://router/v1"
SMALL, LARGE, AUTO = (Target(ROUTER, model) for model in ("small", "large", "auto"))
ELSEWHERE = Target("http://elsewhere/v1", "large")

OK = Outcome(at=0.0, kind=Kind.OK, status=200)
BROKEN = Outcome(at=0.0, kind=Kind.SERVER_ERROR, status=503)
REFUSED_CONNECTION = Outcome(at=0.0, kind=Kind.CONNECT)
SILENT = Outcome(at=0.0, kind=Kind.TIMEOUT)
BAD_REQUEST = Outcome(at=0.0, kind=Kind.REFUSED, status=400)


def limited(retry_after_s: float | None) -> Outcome:
    return Outcome(at=0.0, kind=Kind.LIMITED, status=429, retry_after_s=retry_after_s)


def names(tier: str) -> Outcome:
    return Outcome(at=0.0, kind=Kind.SERVER_ERROR, status=503, tier=tier)


@dataclass
class Fixed:
    """A backoff that waits ``seconds`` and allows ``most`` attempts a target."""

    seconds: float = 0.25
    most: int = 2

    def wait(self, failures: int, elapsed_s: float) -> float | None:
        return self.seconds if failures < self.most else None


@dataclass
class World:
    """Everything a plan works with, and what it did."""

    breakers: BreakerRegistry = field(default_factory=BreakerRegistry)
    budget: RetryBudget = field(default_factory=RetryBudget)
    backoff: Fixed = field(default_factory=Fixed)
    limits: Limits = field(
        default_factory=lambda: Limits(deadline=120.0, attempt_timeout_s=60.0, max_wait_s=5.0)
    )
    now: float = 0.0
    sends: list[Send] = field(default_factory=list)
    sleeps: list[float] = field(default_factory=list)

    def plan(self, *chain: Target) -> Plan:
        return attempts(
            chain,
            started=self.now,
            limits=self.limits,
            backoff=self.backoff,
            breakers=self.breakers,
            budget=self.budget,
        )

    def call(self, chain: Sequence[Target], answer: Callable[[Send], Outcome], took: float = 0.0) -> Result:
        plan = self.plan(*chain)
        try:
            step = next(plan)
            while True:
                if isinstance(step, Sleep):
                    self.sleeps.append(step.seconds)
                    self.now += step.seconds
                    step = plan.send(Slept(self.now))
                else:
                    self.sends.append(step)
                    outcome = answer(step)
                    silent = outcome.kind is Kind.TIMEOUT
                    self.now += step.timeout_s if silent else took
                    step = plan.send(_at(outcome, self.now))
        except StopIteration as stop:
            result = stop.value
            assert isinstance(result, Result)
            return result

    def asked(self) -> list[Target]:
        return [send.target for send in self.sends]

    def trip(self, target: Target) -> None:
        while not isinstance(
            permit := self.breakers.get(target.key, self.now).try_acquire(self.now), Rejected
        ):
            permit.failure(self.now, "connect_error")


def _at(outcome: Outcome, now: float) -> Outcome:
    return Outcome(
        at=now,
        kind=outcome.kind,
        status=outcome.status,
        retry_after_s=outcome.retry_after_s,
        tier=outcome.tier,
        streaming=outcome.streaming,
    )


def in_turn(*outcomes: Outcome) -> Callable[[Send], Outcome]:
    left = iter(outcomes)
    return lambda _send: next(left)


def test_success_is_one_request_and_no_wait() -> None:
    world = World()
    result = world.call([SMALL, LARGE], in_turn(OK), took=0.5)
    assert (world.asked(), world.sleeps, result.reason) == ([SMALL], [], "answered")
    assert result.permit is None
    assert result.attempts[0].elapsed_s == 0.5
    assert world.breakers.get(SMALL.key, 0.0).recorded == 1


def test_failure_is_repeated_on_the_target_and_then_falls_back() -> None:
    world = World()
    result = world.call([SMALL, LARGE], in_turn(BROKEN, BROKEN, OK))
    assert world.asked() == [SMALL, SMALL, LARGE]
    assert world.sleeps == [0.25]
    assert [send.number for send in world.sends] == [0, 1, 2]
    assert result.target == LARGE


def test_business_error_is_returned_at_once_and_not_held_against_the_target() -> None:
    world = World()
    result = world.call([SMALL, LARGE], in_turn(BAD_REQUEST))
    assert world.asked() == [SMALL]
    assert result.outcome == BAD_REQUEST
    assert world.breakers.get(SMALL.key, 0.0).recorded == 0


def test_last_failure_is_the_result_when_every_target_was_tried() -> None:
    world = World()
    result = world.call([SMALL, LARGE], in_turn(BROKEN, BROKEN, limited(None), limited(None)))
    assert result.reason == "every target was tried"
    assert result.outcome is not None
    assert result.outcome.status == 429
    assert [record.status for record in result.attempts] == [503, 503, 429, 429]


@pytest.mark.parametrize(
    ("retry_after_s", "asked", "sleeps"),
    [
        (None, [SMALL, SMALL], [0.25]),
        (0.1, [SMALL, SMALL], [0.25]),
        (1.0, [SMALL, SMALL], [1.0]),
        (5.0, [SMALL, SMALL], [5.0]),
        (100.0, [SMALL, LARGE], []),
        (3600.0, [SMALL, LARGE], []),
    ],
)
def test_retry_after_is_waited_for_or_fallen_back_from(
    retry_after_s: float | None, asked: list[Target], sleeps: list[float]
) -> None:
    world = World()
    world.call([SMALL, LARGE], in_turn(limited(retry_after_s), OK))
    assert (world.asked(), world.sleeps) == (asked, sleeps)
    assert world.breakers.get(SMALL.key, 0.0).state(world.now) is State.CLOSED


def test_only_target_is_waited_for_as_long_as_the_deadline_allows() -> None:
    world = World()
    world.call([SMALL], in_turn(limited(100.0), OK))
    assert world.sleeps == [100.0]
    late = World()
    result = late.call([SMALL], in_turn(limited(120.0)))
    assert (late.sleeps, result.reason) == ([], "every target was tried")


def test_each_reply_has_its_own_retry_after() -> None:
    world = World(backoff=Fixed(most=3))
    world.call([SMALL], in_turn(limited(3.0), limited(1.0), OK))
    assert world.sleeps == [3.0, 1.0]


def test_silent_target_leaves_its_share_of_the_time_to_the_next() -> None:
    world = World(limits=Limits(deadline=30.0, attempt_timeout_s=60.0, max_wait_s=5.0))
    result = world.call([SMALL, ELSEWHERE], in_turn(SILENT, SILENT, OK))
    assert world.asked() == [SMALL, ELSEWHERE]
    assert [send.timeout_s for send in world.sends] == [15.0, 15.0]
    assert world.now == 30.0
    assert result.outcome is not None
    assert result.outcome.kind is Kind.TIMEOUT


def test_deadline_that_passes_while_waiting_ends_the_call() -> None:
    world = World(limits=Limits(deadline=1.0, attempt_timeout_s=60.0, max_wait_s=5.0))
    plan = world.plan(SMALL)
    next(plan)
    assert plan.send(BROKEN) == Sleep(0.25)
    with pytest.raises(StopIteration) as stop:
        plan.send(Slept(1.5))
    assert stop.value.value.reason == "the deadline has passed"


def test_refused_connection_drops_every_target_on_that_endpoint() -> None:
    world = World()
    world.call([SMALL, LARGE, ELSEWHERE], in_turn(REFUSED_CONNECTION, REFUSED_CONNECTION, OK))
    assert world.asked() == [SMALL, SMALL, ELSEWHERE]


def test_tier_named_by_a_failing_auto_is_tried_last_and_auto_not_again() -> None:
    world = World()
    result = world.call([AUTO, LARGE, SMALL], in_turn(names("large"), OK))
    assert world.asked() == [AUTO, SMALL]
    assert result.attempts[0].tier == "large"


def test_open_breaker_is_passed_over_without_a_request_or_a_token() -> None:
    world = World(budget=RetryBudget(BudgetConfig(reserve=0)))
    world.trip(SMALL)
    result = world.call([SMALL, LARGE], in_turn(OK))
    assert world.asked() == [LARGE]
    assert world.sends[0].number == 0
    assert result.attempts[0].reason == "breaker open after connect_error"
    assert not result.attempts[0].sent


def test_nothing_is_sent_when_every_breaker_is_open() -> None:
    world = World()
    world.trip(SMALL)
    result = world.call([SMALL], in_turn())
    assert (world.sends, result.outcome, result.target) == ([], None, None)


def test_breaker_that_opens_meanwhile_stops_the_retry() -> None:
    world = World(breakers=BreakerRegistry(BreakerConfig(window=1, minimum_calls=1)))
    world.call([SMALL, LARGE], in_turn(BROKEN, OK))
    assert world.asked() == [SMALL, LARGE]


def test_spent_budget_ends_the_call_with_the_first_reply_and_without_a_wait() -> None:
    world = World(budget=RetryBudget(BudgetConfig(reserve=0)))
    result = world.call([SMALL, LARGE], in_turn(BROKEN))
    assert (world.asked(), world.sleeps, result.reason) == ([SMALL], [], "the retry budget is spent")


def test_budget_spent_by_others_during_the_wait_ends_the_call_and_returns_the_permit() -> None:
    world = World(budget=RetryBudget(BudgetConfig(reserve=1, deposit_ratio=0)))
    plan = world.plan(SMALL)
    next(plan)
    assert plan.send(BROKEN) == Sleep(0.25)
    assert world.budget.withdraw()
    with pytest.raises(StopIteration) as stop:
        plan.send(Slept(0.25))
    assert stop.value.value.reason == "the retry budget is spent"
    assert world.breakers.get(SMALL.key, 0.0).recorded == 1


def test_streaming_success_leaves_its_permit_to_the_reader() -> None:
    world = World()
    result = world.call([SMALL], in_turn(Outcome(at=0.0, kind=Kind.OK, status=200, streaming=True)))
    assert isinstance(result.permit, Permit)
    assert world.breakers.get(SMALL.key, 0.0).recorded == 0
    result.permit.failure(0.0, Kind.TRUNCATED)
    assert world.breakers.get(SMALL.key, 0.0).recorded == 1


def test_cancelled_probes_give_their_permits_back() -> None:
    world = World()
    world.trip(SMALL)
    world.now = 30.0
    world.limits = Limits(deadline=150.0, attempt_timeout_s=60.0, max_wait_s=5.0)
    for _ in range(50):
        plan = world.plan(SMALL)
        assert isinstance(next(plan), Send)
        plan.close()
    for _ in range(3):
        world.call([SMALL], in_turn(OK))
    assert world.breakers.get(SMALL.key, world.now).state(world.now) is State.CLOSED


KINDS = st.sampled_from([Kind.OK, Kind.SERVER_ERROR, Kind.TIMEOUT, Kind.CONNECT, Kind.LIMITED, Kind.REFUSED])


@given(
    seed=st.integers(0, 2**32),
    kinds=st.lists(KINDS, min_size=1, max_size=60),
    calls=st.integers(1, 20),
    took=st.floats(0, 50),
)
def test_random_faults_never_overrun_the_deadline_nor_the_budget(
    seed: int, kinds: list[Kind], calls: int, took: float
) -> None:
    choice = random.Random(seed)
    world = World(backoff=Fixed(seconds=choice.uniform(0, 3), most=3))

    def answer(send: Send) -> Outcome:
        assert world.now < world.limits.deadline, "a request was sent after the deadline"
        assert 0 < send.timeout_s <= world.limits.deadline - world.now
        retry_after_s = choice.choice([None, 1.0, 200.0])
        return Outcome(at=0.0, kind=choice.choice(kinds), retry_after_s=retry_after_s, tier="large")

    for _ in range(calls):
        world.limits = Limits(deadline=world.now + 120.0, attempt_timeout_s=60.0, max_wait_s=5.0)
        world.call([AUTO, LARGE, SMALL, ELSEWHERE], answer, took=min(took, 10.0))
    assert len(world.sends) <= calls + 10 + 0.1 * calls
