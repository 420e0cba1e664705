"""One retry budget for everything a process sends again.

Theory of operation. A token bucket fed by traffic instead of time, as in Finagle's RetryBudget: each call
deposits ``deposit_ratio`` tokens and each further request (retry or fallback) withdraws one. In the long
run the extra requests are at most that share of the calls, however many targets fail at once and however
deep the chains are. The bucket starts with ``reserve`` tokens, so that a program of a few calls can retry
at all, and holds at most ``ceiling``, so that a long good time does not save up for a storm. A rejection by
an open breaker sends nothing and costs nothing: going on to the next target is then the call's first
request.
"""

from contextlib import nullcontext
from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from baseload_client.core.breaker import Guard


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class BudgetConfig:
    """How many further requests a process may make. Unit: requests."""

    deposit_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Further requests earned by each call."""
    reserve: Annotated[float, Field(ge=0)] = 10.0
    """Further requests that may be made before any was earned."""
    ceiling: Annotated[float, Field(ge=0)] = 100.0
    """The most that can be saved up; a larger ``reserve`` raises it."""


class RetryBudget:
    """A shared bucket of tokens. guard: ``threading.RLock`` where threads share it; see ``core.breaker``."""

    def __init__(self, config: BudgetConfig | None = None, *, guard: Guard = nullcontext) -> None:
        self._config = config or BudgetConfig()
        self._ceiling = max(self._config.ceiling, self._config.reserve)
        self._tokens = self._config.reserve
        self._guard = guard()

    def __repr__(self) -> str:
        return f"<RetryBudget {self._tokens:.1f} of {self._ceiling:.1f}>"

    @property
    def tokens(self) -> float:
        return self._tokens

    @property
    def exhausted(self) -> bool:
        """Whether a withdrawal would fail now."""
        return self._tokens < 1.0

    def deposit(self) -> None:
        """A call begins."""
        with self._guard:
            self._tokens = min(self._ceiling, self._tokens + self._config.deposit_ratio)

    def withdraw(self) -> bool:
        """Takes one token for one further request; False, and nothing taken, if there is none."""
        with self._guard:
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True
