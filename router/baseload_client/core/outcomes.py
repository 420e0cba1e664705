"""What an attempt's end means: for the breaker, for the retry and for the caller.

Theory of operation. An attempt ends in one ``Kind``. Kinds fall into four verdicts:

- success: recorded as a success, returned.
- failure (connection, timeout, 5xx, truncated or failed stream): recorded as a failure, tried again
  elsewhere.
- limited (429): the target is healthy and says "later". The breaker ignores it; the call is tried again
  elsewhere, or there after ``Retry-After``.
- ignored (other 4xx, cancellation, a full local connection pool): says nothing about the target and would end
  the same way elsewhere. The breaker ignores it and the caller gets it as it is.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, StrEnum
from math import isfinite

NEVER_FAILURES = frozenset({501, 505})
"""5xx that speak of the request, not of the target's health: not implemented, HTTP version not supported."""
LONGEST_RETRY_AFTER_S = 365 * 86_400.0
"""Retry-After is clamped to a year: beyond it every value means "not in this call"."""


class Verdict(Enum):
    SUCCESS = "success"
    FAILURE = "failure"
    LIMITED = "limited"
    IGNORED = "ignored"


class Kind(StrEnum):
    """How an attempt ended; the value is what reports and messages show."""

    OK = "ok"
    CONNECT = "connect_error"
    CONNECTION_LOST = "connection_lost"
    TIMEOUT = "timeout"
    SERVER_ERROR = "server_error"
    TRUNCATED = "truncated_stream"
    STREAM_ERROR = "stream_error"
    LIMITED = "rate_limited"
    REFUSED = "request_refused"
    POOL_EXHAUSTED = "local_pool_exhausted"
    LOCAL = "local_error"

    @property
    def verdict(self) -> Verdict:
        return _VERDICTS.get(self, Verdict.FAILURE)


_VERDICTS = {
    Kind.OK: Verdict.SUCCESS,
    Kind.LIMITED: Verdict.LIMITED,
    Kind.REFUSED: Verdict.IGNORED,
    Kind.POOL_EXHAUSTED: Verdict.IGNORED,
    Kind.LOCAL: Verdict.IGNORED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one attempt ended.

    at: monotonic seconds. status: of the HTTP reply, None without one. retry_after_s: seconds that the reply
    asks to wait. tier, version, endpoint: what the reply says about who served it. streaming: a success whose
    body is still to come, so that its permit is settled by whoever reads the body. detail: for people.
    """

    at: float
    kind: Kind
    status: int | None = None
    retry_after_s: float | None = None
    tier: str = ""
    version: str = ""
    endpoint: str = ""
    streaming: bool = False
    detail: str = ""

    @property
    def verdict(self) -> Verdict:
        return self.kind.verdict


def kind_of_status(status: int) -> Kind:
    """The kind of a complete HTTP reply with this status."""
    if status < 400:
        return Kind.OK
    if status == 429:
        return Kind.LIMITED
    return Kind.SERVER_ERROR if status >= 500 and status not in NEVER_FAILURES else Kind.REFUSED


def retry_after(value: str | None, wall_now: datetime) -> float | None:
    """Seconds to wait by a ``Retry-After`` header (RFC 9110, 10.2.3), or None where it says nothing usable.

    Takes seconds (decimals too, as some servers send them) and HTTP dates; a date in the past is 0. Garbage,
    negative numbers, NaN and infinities are None. wall_now: the time now with a time zone, for dates.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _until(value, wall_now)
    if not isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, LONGEST_RETRY_AFTER_S)


def _until(date: str, wall_now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(0.0, (aware - wall_now).total_seconds()), LONGEST_RETRY_AFTER_S)
