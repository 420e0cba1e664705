"""The one plan of a call: which target to ask, when to ask again, when to give up.

Theory of operation. A generator that yields what to do (``Send``, ``Sleep``) and is sent what came of it
(``Outcome``, ``Slept``). It neither sends nor sleeps nor looks at a clock, so the synchronous and the
asynchronous client drive the same plan. Closing the generator (a cancelled call) gives its permit back.

The chain of targets is walked once, front to back:

- A target whose breaker is open is passed over at no cost.
- A failed attempt is repeated on the same target while the policy's stop allows, after the policy's wait
  (full jitter) or the reply's own ``Retry-After`` if that is longer. The next target is taken at once
  instead if the wait is over ``max_wait_s`` while another target is there, or would end after the deadline;
  if the attempt timed out (a silent target has cost enough); or if the reply names another tier than the
  target, because asking again would go to that tier again. That tier moves to the end of the chain.
- An endpoint that refuses connections is refused for every model on it: its other targets are dropped.
- Every request after a call's first one is paid from the process's retry budget.
- An attempt may take ``attempt_timeout_s``, and never more than its share of the time left, so that a silent
  target leaves time to those behind it.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from baseload_client.core.breaker import Permit, Rejected
from baseload_client.core.budget import RetryBudget
from baseload_client.core.outcomes import Kind, Outcome, Verdict
from baseload_client.core.registry import BreakerRegistry, TargetKey
from baseload_client.core.report import AttemptRecord


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request can go. endpoint: base URL. model: what the body's ``model`` becomes."""

    endpoint: str
    model: str

    @property
    def key(self) -> TargetKey:
        return TargetKey(self.endpoint, self.model)


class Backoff(Protocol):
    """The policy's wait and stop, asked only once an attempt has failed."""

    def wait(self, failures: int, elapsed_s: float) -> float | None:
        """Seconds to wait after the ``failures``-th failure on a target, or None to stop asking it.

        elapsed_s: seconds since the call began.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Times of one call in seconds. deadline: monotonic. max_wait_s: the longest wait for the same target
    while another one is there."""

    deadline: float
    attempt_timeout_s: float
    max_wait_s: float


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request to ``target`` within ``timeout_s``; ``number`` counts the requests of this call from
    0."""

    target: Target
    number: int
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Sleep:
    seconds: float


@dataclass(frozen=True, slots=True)
class Slept:
    """The answer to ``Sleep``. at: monotonic seconds."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How the call ended.

    outcome: of the last request sent, None if none was. permit: still to be settled, if the outcome is
    streaming. reason: why nothing more was tried.
    """

    outcome: Outcome | None
    target: Target | None
    permit: Permit | None
    attempts: tuple[AttemptRecord, ...]
    reason: str


Plan = Generator[Send | Sleep, Outcome | Slept, Result]


def attempts(
    chain: Sequence[Target],
    *,
    started: float,
    limits: Limits,
    backoff: Backoff,
    breakers: BreakerRegistry,
    budget: RetryBudget,
) -> Plan:
    """The plan of one call over ``chain``, begun at ``started`` (monotonic seconds); see the module."""
    budget.deposit()
    call = _Call(list(chain), started, limits, backoff)
    while call.chain and call.now < limits.deadline:
        target = call.chain[0]
        permit = breakers.get(target.key, call.now).try_acquire(call.now)
        if isinstance(permit, Rejected):
            call.pass_over(target, permit)
            continue
        if call.sent and not budget.withdraw():
            permit.ignore(call.now)
            return call.end("the retry budget is spent")
        outcome = yield from _send(call, target, permit)
        if outcome.verdict in (Verdict.SUCCESS, Verdict.IGNORED):
            return call.end("answered", permit if outcome.streaming else None)
        wait = call.after_failure(target, outcome)
        if call.chain and budget.exhausted:
            return call.end("the retry budget is spent")
        if wait > 0:
            call.now = (yield Sleep(wait)).at
    return call.end("the deadline has passed" if call.chain else "every target was tried")


def _send(call: "_Call", target: Target, permit: Permit) -> Generator[Send | Sleep, Outcome | Slept, Outcome]:
    sent_at = call.now
    try:
        # The shell answers a Send with an Outcome, always.
        outcome = cast(Outcome, (yield Send(target, call.sent, call.timeout_s())))
    except BaseException:
        permit.ignore(sent_at)
        raise
    call.note(target, outcome, sent_at)
    match outcome.verdict:
        case Verdict.SUCCESS if outcome.streaming:
            pass  # settled by whoever reads the body
        case Verdict.SUCCESS:
            permit.success(outcome.at)
        case Verdict.FAILURE:
            permit.failure(outcome.at, outcome.kind)
        case _:
            permit.ignore(outcome.at)
    return outcome


class _Call:
    """What has happened so far in one call."""

    def __init__(self, chain: list[Target], started: float, limits: Limits, backoff: Backoff) -> None:
        self.chain = chain
        self.now = started
        self.sent = 0
        self._started = started
        self._limits = limits
        self._backoff = backoff
        self._failures = 0
        self._records: list[AttemptRecord] = []
        self._last: tuple[Target, Outcome] | None = None

    def timeout_s(self) -> float:
        share = (self._limits.deadline - self.now) / len(self.chain)
        return min(self._limits.attempt_timeout_s, share)

    def pass_over(self, target: Target, rejected: Rejected) -> None:
        reason = f"breaker {rejected.reason}"
        self._records.append(
            AttemptRecord(model=target.model, endpoint=target.endpoint, sent=False, reason=reason)
        )
        self._next_target()

    def note(self, target: Target, outcome: Outcome, sent_at: float) -> None:
        self.now = outcome.at
        self.sent += 1
        self._last = target, outcome
        self._records.append(
            AttemptRecord(
                model=target.model,
                endpoint=target.endpoint,
                sent=True,
                reason=outcome.kind,
                status=outcome.status,
                tier=outcome.tier,
                elapsed_s=outcome.at - sent_at,
            )
        )

    def after_failure(self, target: Target, outcome: Outcome) -> float:
        """Moves the chain on, or leaves it and returns the seconds to wait for the same target."""
        self._failures += 1
        wait = self._wait(target, outcome)
        if wait is not None:
            return wait
        self._next_target()
        if outcome.kind is Kind.CONNECT:
            self.chain = [other for other in self.chain if other.endpoint != target.endpoint]
        named = [other for other in self.chain if other.model == outcome.tier]
        self.chain = [other for other in self.chain if other.model != outcome.tier] + named
        return 0.0

    def end(self, reason: str, permit: Permit | None = None) -> Result:
        target, outcome = self._last or (None, None)
        return Result(
            outcome=outcome, target=target, permit=permit, attempts=tuple(self._records), reason=reason
        )

    def _wait(self, target: Target, outcome: Outcome) -> float | None:
        others = len(self.chain) > 1
        if others and (outcome.kind is Kind.TIMEOUT or outcome.tier not in ("", target.model)):
            return None
        wait = self._backoff.wait(self._failures, self.now - self._started)
        if wait is None:
            return None
        wait = max(wait, outcome.retry_after_s or 0.0)
        if (others and wait > self._limits.max_wait_s) or self.now + wait >= self._limits.deadline:
            return None
        return wait

    def _next_target(self) -> None:
        del self.chain[0]
        self._failures = 0
