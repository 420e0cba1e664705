"""What to do when an upstream connection is lost before it answered.

Once a byte of the answer has been passed on, nothing may be repeated. Before that:

- A kept-alive connection may have been closed by its endpoint while the request was on its way. Nobody
  has seen the request, so dialling the same endpoint again is no further attempt at the model, and
  always allowed, once.
- Otherwise the request goes to another endpoint of the same step, once. A request that is itself a retry
  (``x-retry-attempt``) does not: the client counts its attempts, and two layers of retries multiply.
"""

from dataclasses import dataclass
from enum import Enum

MAX_RETRIES = 1


class NextStep(Enum):
    """How a request goes on."""

    REDIAL = "redial"
    RETRY = "retry"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Loss:
    """A lost connection. ``pooled``: it was kept alive from an earlier request. ``retries``: made so far."""

    pooled: bool
    marked: bool
    retries: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the request goes on, and why."""

    step: NextStep
    reason: str


def after_loss(loss: Loss) -> Verdict:
    """The next step for a request whose connection was lost before the first byte of an answer."""
    if loss.pooled:
        return Verdict(NextStep.REDIAL, "a kept-alive connection had gone stale")
    if loss.marked:
        return Verdict(NextStep.FAIL, "the request is itself a retry")
    if loss.retries >= MAX_RETRIES:
        return Verdict(NextStep.FAIL, f"it has been tried on {loss.retries + 1} endpoints")
    return Verdict(NextStep.RETRY, "another endpoint may answer")
