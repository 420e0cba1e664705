"""One call's way through the transport: requests for its attempts, outcomes from replies, the final answer.

Nothing here sends, waits or reads a body, so the synchronous and the asynchronous transport share all of it.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx2

from baseload_client.clock import Clock
from baseload_client.core.attempts import Result, Send, Target
from baseload_client.core.outcomes import Kind, Outcome, Verdict, kind_of_status, retry_after
from baseload_client.core.report import AUTO, Resilience, downgraded
from baseload_client.core.sse import StreamWatch
from baseload_client.errors import AllTargetsFailedError, DeadlineExceededError, StreamTruncatedError
from baseload_client.policy import ClientPolicy
from baseload_client.streams import BodyGuard, BufferedStream, OpenBody

TOTAL_EXTENSION = "baseload_total_s"
"""Request extension: seconds for the whole call, in place of the policy's."""
RESILIENCE_EXTENSION = "baseload_resilience"
"""Response extension that holds the call's Resilience."""

_KINDS: tuple[tuple[type[httpx2.TransportError], Kind], ...] = (
    (httpx2.PoolTimeout, Kind.POOL_EXHAUSTED),
    (httpx2.ConnectError, Kind.CONNECT),
    (httpx2.ConnectTimeout, Kind.CONNECT),
    (httpx2.ProxyError, Kind.CONNECT),
    (httpx2.TimeoutException, Kind.TIMEOUT),
    (StreamTruncatedError, Kind.TRUNCATED),
    (httpx2.LocalProtocolError, Kind.LOCAL),
    (httpx2.UnsupportedProtocol, Kind.LOCAL),
    (httpx2.TransportError, Kind.CONNECTION_LOST),
)


class Exchange:
    """What one ``handle_request`` is about. ``reply`` is what the last attempt brought: it goes to the
    caller."""

    def __init__(self, request: httpx2.Request, *, base_url: str, policy: ClientPolicy, clock: Clock) -> None:
        self._request = request
        self._policy = policy
        self._clock = clock
        self.started = clock.now()
        self.deadline = self.started + request.extensions.get(TOTAL_EXTENSION, policy.total_deadline_s)
        self.replayable = isinstance(request.stream, httpx2.ByteStream)
        self.reply: httpx2.Response | OpenBody | httpx2.TransportError | None = None
        self._request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        self._base_url, self._path = _split(str(request.url), base_url)
        self._body = _json_body(request) if self.replayable else None
        self.model = str((self._body or {}).get("model") or "")
        self._watched = bool((self._body or {}).get("stream")) and self._path.partition("?")[0].endswith(
            "/completions"
        )

    @property
    def chain(self) -> list[Target]:
        """The targets of this call, best first."""
        chain = self._policy.chain(self._base_url, self.model)
        if self._path:
            return list(chain)
        # The URL lies outside the base URL, so it cannot be moved to another one.
        return [target for target in chain if target.endpoint == self._base_url]

    def request_for(self, send: Send) -> httpx2.Request:
        """The request of one attempt."""
        headers = httpx2.Headers(self._request.headers)
        headers["x-request-id"] = self._request_id
        headers["x-request-timeout-ms"] = str(max(1, int((self.deadline - self._clock.now()) * 1000)))
        if send.number:
            headers["x-retry-attempt"] = str(send.number)
        if self._watched:
            # The stream is watched for its end, which a compressed one would hide.
            headers["accept-encoding"] = "identity"
        url = self._request.url
        if send.target.endpoint != self._base_url:
            url = httpx2.URL(send.target.endpoint + self._path)
            headers["host"] = url.netloc.decode("ascii")
        extensions = {**self._request.extensions, "timeout": self._timeouts(send.timeout_s)}
        if self._body is not None and send.target.model != self.model:
            content = _encoded({**self._body, "model": send.target.model})
            headers["content-length"] = str(len(content))
            stream: Any = httpx2.ByteStream(content)
        else:
            stream = self._request.stream
        return httpx2.Request(
            self._request.method, url, headers=headers, stream=stream, extensions=extensions
        )

    def _timeouts(self, attempt_s: float) -> dict[str, float]:
        asked = self._request.extensions.get("timeout", {})
        limits = {name: min(attempt_s, asked.get(name) or attempt_s) for name in ("read", "write", "pool")}
        connect = min(attempt_s, self._policy.connect_timeout_s, asked.get("connect") or attempt_s)
        return {"connect": connect, **limits}

    def opened(self, response: httpx2.Response) -> OpenBody | None:
        """Where the body is to be handed on as it comes; None where it is read at once (errors, JSON)."""
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code >= 300 or media_type.endswith("json"):
            return None
        watched = self._watched and media_type == "text/event-stream"
        return OpenBody(response, StreamWatch() if watched else None)

    def streams(self, body: OpenBody) -> Outcome:
        """The outcome of a reply whose body has begun."""
        status = body.watch.error_status if body.watch else None
        if status is None:
            self.reply = body
            return self._outcome(body.response, Kind.OK, streaming=True)
        # The server failed before the first token: what it said about it is all there will be.
        self.reply = _rebuilt(body.response, BufferedStream(b"".join(body.held)))
        return self._outcome(body.response, Kind.STREAM_ERROR if status >= 500 else Kind.REFUSED)

    def complete(self, response: httpx2.Response, body: bytes) -> Outcome:
        """The outcome of a reply that is here in full."""
        self.reply = _rebuilt(response, BufferedStream(body))
        return self._outcome(response, kind_of_status(response.status_code))

    def failed(self, error: httpx2.TransportError) -> Outcome:
        """The outcome of an attempt without a usable reply."""
        self.reply = error
        kind = next(kind for raised, kind in _KINDS if isinstance(error, raised))
        return Outcome(at=self._clock.now(), kind=kind, detail=str(error))

    def _outcome(self, response: httpx2.Response, kind: Kind, *, streaming: bool = False) -> Outcome:
        headers = response.headers
        return Outcome(
            at=self._clock.now(),
            kind=kind,
            status=response.status_code,
            retry_after_s=retry_after(headers.get("retry-after"), datetime.now(UTC)),
            tier=headers.get("x-baseload-tier", ""),
            version=headers.get("x-baseload-version", ""),
            endpoint=headers.get("x-baseload-endpoint", ""),
            streaming=streaming,
        )

    def answer(
        self,
        result: Result,
        guarded: Callable[[OpenBody, BodyGuard], httpx2.SyncByteStream | httpx2.AsyncByteStream],
    ) -> httpx2.Response:
        """The reply for the caller; ``guarded`` makes the stream of a running body. Raises what else it
        ends in."""
        resilience = self._resilience(result)
        reply = self.reply
        if isinstance(reply, OpenBody) and result.permit is not None:
            guard = BodyGuard(reply.watch, result.permit, self._clock, self.deadline)
            reply = _rebuilt(reply.response, guarded(reply, guard))
        if isinstance(reply, httpx2.Response):
            return _marked(reply, resilience, self._request_id)
        raise self._error(result, resilience)

    def _error(self, result: Result, resilience: Resilience) -> httpx2.TransportError:
        cause = self.reply if isinstance(self.reply, httpx2.TransportError) else None
        if cause is not None and result.outcome is not None and result.outcome.verdict is Verdict.IGNORED:
            return cause
        out_of_time = result.outcome.kind is Kind.TIMEOUT if result.outcome else False
        kind = DeadlineExceededError if out_of_time else AllTargetsFailedError
        error = kind(resilience, result.reason)
        error.__cause__ = cause
        return error

    def _resilience(self, result: Result) -> Resilience:
        outcome, target = result.outcome, result.target
        served = endpoint = version = ""
        if outcome is not None and target is not None and outcome.verdict is Verdict.SUCCESS:
            served = outcome.tier or ("" if target.model == AUTO else target.model)
            endpoint, version = outcome.endpoint or target.endpoint, outcome.version
        return Resilience(
            tier_requested=self.model,
            tier_served=served,
            served_by=endpoint,
            version=version,
            downgraded=downgraded(self.model, served, result.attempts, self._policy.tiers),
            attempts=result.attempts,
        )


def _split(url: str, base_url: str) -> tuple[str, str]:
    """The base URL that fails as one, and the rest of the URL (empty if it lies outside the given base)."""
    if url.startswith(base_url + "/"):
        return base_url, url[len(base_url) :]
    parsed = httpx2.URL(url)
    return f"{parsed.scheme}://{parsed.netloc.decode('ascii')}", ""


def _json_body(request: httpx2.Request) -> dict[str, Any] | None:
    media_type = request.headers.get("content-type", "").partition(";")[0]
    if request.method != "POST" or media_type != "application/json":
        return None
    try:
        body = json.loads(request.content)
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _rebuilt(
    response: httpx2.Response, stream: httpx2.SyncByteStream | httpx2.AsyncByteStream
) -> httpx2.Response:
    return httpx2.Response(
        response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
    )


def _marked(response: httpx2.Response, resilience: Resilience, request_id: str) -> httpx2.Response:
    """The reply with the call's story in headers (for anyone) and in an extension (for this package)."""
    attempts = [
        {
            "model": attempt.model,
            "endpoint": attempt.endpoint,
            "status": attempt.status,
            "reason": attempt.reason,
        }
        for attempt in resilience.attempts
    ]
    headers = response.headers
    headers["x-baseload-tier-requested"] = _token(resilience.tier_requested)
    headers["x-baseload-tier-served"] = _token(resilience.tier_served)
    headers["x-baseload-downgraded"] = str(resilience.downgraded).lower()
    headers["x-baseload-attempts"] = json.dumps(attempts, separators=(",", ":"))
    headers.setdefault("x-request-id", request_id)
    response.extensions[RESILIENCE_EXTENSION] = resilience
    return response


def _token(name: str) -> str:
    """``name`` as a header value: JSON's escapes for what a header cannot hold."""
    return json.dumps(name)[1:-1]
