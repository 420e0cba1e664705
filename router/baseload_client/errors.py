"""Errors of this package. Those that a call can end in are httpx2 errors too, so any httpx2 user handles
them."""

import httpx2

from baseload_client.core.report import Resilience


class BaseloadClientError(Exception):
    """The base. status: the HTTP status a server would answer. retryable: whether a later try may work."""

    status = 500
    retryable = False


class PolicyError(BaseloadClientError):
    """A policy file cannot be used; the message names file, field and fix."""

    status = 400


class AllTargetsFailedError(BaseloadClientError, httpx2.TransportError):
    """No target gave an HTTP reply to return. ``resilience.attempts`` lists every attempt."""

    status = 503
    retryable = True

    def __init__(self, resilience: Resilience, reason: str) -> None:
        self.resilience = resilience
        attempts = "; ".join(str(attempt) for attempt in resilience.attempts) or "none was made"
        super().__init__(f"{self._lead} ({reason}). Attempts: {attempts}")

    _lead = "no target answered"


class DeadlineExceededError(AllTargetsFailedError, httpx2.TimeoutException):
    """The time for the call ran out, or the last attempt timed out."""

    status = 504

    _lead = "no target answered in time"


class StreamTruncatedError(BaseloadClientError, httpx2.RemoteProtocolError):
    """A stream of tokens ended before its answer was complete."""

    status = 502
    retryable = True


class StreamTimeoutError(BaseloadClientError, httpx2.ReadTimeout):
    """A stream of tokens fell silent, or the deadline of the call passed while it ran."""

    status = 504
    retryable = True
