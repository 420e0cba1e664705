"""What a caller is told about how its request was served.

Theory of operation. ``attempts`` lists every target that was asked or passed over, in order. A reply is
*downgraded* if a tier that ranks above the serving one was asked for, or was tried, and did not serve.
Ranks are the policy's order of tiers, lowest first. So small served by large is not downgraded, and
``auto`` is only if the router's first choice was higher. Names outside the order have no rank: then any
other tier than the requested one counts as a downgrade, because nothing says it is as good.
"""

from collections.abc import Sequence
from dataclasses import dataclass

AUTO = "auto"
"""The model name that lets the router choose the tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """One target asked, or passed over because its breaker was open (``sent`` is then false).

    model, endpoint: the target. status: of its HTTP reply, None without one. reason: a ``Kind`` or why it was
    passed over. tier: what the reply named. elapsed_s: seconds from sending to the outcome.
    """

    model: str
    endpoint: str
    sent: bool
    reason: str
    status: int | None = None
    tier: str = ""
    elapsed_s: float = 0.0

    @property
    def tried_tier(self) -> str:
        """The tier this attempt stands for, or an empty string where only the router knew."""
        return self.tier or ("" if self.model == AUTO else self.model)

    def __str__(self) -> str:
        status = f"status {self.status}, " if self.status is not None else ""
        return f"{self.model or 'request'} at {self.endpoint}: {status}{self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """How a request was served; ``tier_served`` and ``served_by`` are empty if nobody served it.

    served_by: the endpoint that answered. version: the rollout step that served, such as ``stable``.
    """

    tier_requested: str
    tier_served: str
    served_by: str
    version: str
    downgraded: bool
    attempts: tuple[AttemptRecord, ...]


def downgraded(requested: str, served: str, attempts: Sequence[AttemptRecord], tiers: Sequence[str]) -> bool:
    """Whether ``served`` is a lesser tier than asked for; see the module. tiers: lowest first."""
    if not served:
        return False
    passed_over = [attempt.tried_tier for attempt in attempts if attempt.tried_tier not in ("", served)]
    if requested not in (AUTO, served):
        passed_over.append(requested)
    return any(_outranks(tier, served, tiers) for tier in passed_over)


def _outranks(tier: str, served: str, tiers: Sequence[str]) -> bool:
    if tier in tiers and served in tiers:
        return tiers.index(tier) > tiers.index(served)
    return True
