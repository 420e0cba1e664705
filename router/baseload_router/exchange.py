"""One proxied request: from the choice of an endpoint to the last byte, or to the first failure.

States, in order: choosing, dialling (unless a connection is kept alive), waiting for the head, passing
the body. Up to the head a failure may lead back to choosing (core/retry.py decides); after it, the
client is told.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from baseload_router.core.forwarding import Header, upstream_headers
from baseload_router.core.pick import AllAtCapacity, pick
from baseload_router.core.policy import Policy
from baseload_router.core.retry import Loss, NextStep, after_loss
from baseload_router.core.walk import Route
from baseload_router.directory import Service
from baseload_router.errors import (
    AtCapacityError,
    NoEndpointError,
    RouterError,
    UpstreamFailedError,
    UpstreamTimeoutError,
)
from baseload_router.http_head import header_lines, request_line
from baseload_router.http_request import Request
from baseload_router.metrics import Metrics
from baseload_router.pool import Endpoint
from baseload_router.reply import Reply
from baseload_router.server import ClientConnection
from baseload_router.upstream import UpstreamConnection

CLIENT_LEFT = 499


@dataclass(frozen=True, slots=True)
class ExchangeParts:
    """What every exchange needs of the rest. ``withheld``: header names that never go upstream."""

    policy: Policy
    metrics: Metrics
    rng: Random
    clock: Callable[[], float]
    withheld: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done: a request, the route that it takes, and the path to call there."""

    request: Request
    request_id: bytes
    route: Route
    service: Service
    path: bytes


class Exchange:
    """A request on its way. It is the responder of its client connection and the sink of its upstream one."""

    __slots__ = (
        "_client",
        "_dialling",
        "_endpoint",
        "_failed",
        "_is_marked",
        "_lines",
        "_order",
        "_parts",
        "_pooled",
        "_reply",
        "_retries",
        "_started",
        "_status",
        "_upstream",
        "_waits_for_token",
    )

    def __init__(self, parts: ExchangeParts, client: ClientConnection, order: Order) -> None:
        self._parts = parts
        self._client = client
        self._order = order
        self._reply = Reply(client, order.request)
        self._lines = _upstream_lines(order, parts.withheld)
        self._is_marked = order.request.header(b"x-retry-attempt") is not None
        self._started = parts.clock()
        self._endpoint: Endpoint | None = None
        self._upstream: UpstreamConnection | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._failed: list[Endpoint] = []
        self._retries = 0
        self._pooled = False
        self._status = 0
        self._waits_for_token = True

    def start(self) -> None:
        """Choose an endpoint and send the request there, or answer why not."""
        error = self._choose()
        if error is None:
            self._send()
        else:
            self._fail(error)

    # What the client connection does: Responder.

    def cancel(self) -> None:
        self._stop_upstream()
        self._release()
        self._count_abort("client")
        self._count(self._status or CLIENT_LEFT)

    def on_deadline(self) -> None:
        dialling = self._dialling is not None
        self._stop_upstream()
        if dialling:
            self._unreachable("it could not be reached in time")
        elif self._status:
            self._break_off(UpstreamTimeoutError(f"{self._where} kept silent for too long"))
        else:
            self._release()
            limit = self._parts.policy.upstream_timeout_s
            self._fail(UpstreamTimeoutError(f"{self._where} did not answer within {limit:g} s"))

    def pause(self) -> None:
        if self._upstream is not None and self._status:
            self._upstream.transport.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None and self._status:
            self._upstream.transport.resume_reading()
            self._allow(self._parts.policy.upstream_timeout_s)

    # What the upstream connection does: Sink.

    def on_response(self, status: int, headers: list[Header]) -> None:
        self._status = status
        self._reply.begin(status, headers, self._own_lines())

    def on_data(self, data: bytes) -> None:
        if self._waits_for_token:
            self._waits_for_token = False
            route = self._order.route
            self._parts.metrics.first_token(route.tier, route.version, self._parts.clock() - self._started)
        self._reply.add(data)

    def on_pause(self) -> None:
        self._allow(self._parts.policy.upstream_timeout_s)
        self._reply.flush()

    def on_end(self) -> None:
        self._upstream = None
        self._release()
        self._count(self._status)
        self._reply.end()

    def on_lost(self, reason: str) -> None:
        self._upstream = None
        if self._status:
            self._break_off(UpstreamFailedError(f"{self._where} broke off its answer: {reason}"))
        else:
            self._go_on(reason)

    # Choosing and sending.

    def _choose(self) -> RouterError | None:
        """Take a slot at an endpoint."""
        service = self._order.service
        endpoints = service.endpoints
        tier = self._order.route.tier
        if not endpoints:
            return NoEndpointError(f"no ready endpoint for service {service.name} (tier {tier})")
        failed = [index for index, endpoint in enumerate(endpoints) if endpoint in self._failed]
        picked = pick(endpoints, self._parts.clock(), self._parts.rng, failed)
        if isinstance(picked, AllAtCapacity):
            return AtCapacityError(f"{picked.reason} for service {service.name} (tier {tier})")
        self._endpoint = endpoints[picked.index]
        self._endpoint.in_flight += 1
        return None

    def _send(self) -> None:
        """Send the request to the endpoint chosen, over a connection kept alive if there is one."""
        endpoint = self._chosen
        kept = endpoint.take_idle()
        if kept is None:
            self._dial(endpoint)
        else:
            self._pooled = True
            self._send_over(endpoint, kept)

    def _dial(self, endpoint: Endpoint) -> None:
        self._pooled = False
        self._allow(self._parts.policy.connect_timeout_s)
        self._dialling = asyncio.get_running_loop().create_task(self._connect(endpoint))

    async def _connect(self, endpoint: Endpoint) -> None:
        try:
            connection = await endpoint.connect()
        except OSError as error:
            self._dialling = None
            self._unreachable(f"it could not be reached: {error.strerror or error}")
        else:
            self._dialling = None
            self._send_over(endpoint, connection)

    def _send_over(self, endpoint: Endpoint, connection: UpstreamConnection) -> None:
        self._upstream = connection
        self._allow(self._parts.policy.upstream_timeout_s)
        line = request_line(b"POST", self._order.path, endpoint.name.encode())
        connection.send(self, (line + self._lines, self._order.request.body))

    # Failing.

    def _unreachable(self, reason: str) -> None:
        self._chosen.cooling_until = self._parts.clock() + self._parts.policy.cooldown_s
        self._go_on(reason)

    def _go_on(self, reason: str) -> None:
        """The endpoint is lost before it answered: again, elsewhere, or no more."""
        verdict = after_loss(Loss(self._pooled, self._is_marked, self._retries))
        error = UpstreamFailedError(f"{self._where} failed before it answered: {reason}")
        if verdict.step is NextStep.REDIAL:
            self._count_retry("stale connection")
            self._dial(self._chosen)
        elif verdict.step is NextStep.RETRY and self._choose_another():
            self._count_retry("other endpoint")
            self._send()
        else:
            self._release()
            self._fail(error)

    def _choose_another(self) -> bool:
        """Move to another endpoint; without one, stay, so that the error names the one that failed."""
        failed = self._chosen
        self._failed.append(failed)
        if self._choose() is not None:
            return False
        failed.in_flight -= 1
        self._retries += 1
        return True

    def _fail(self, error: RouterError) -> None:
        self._count(error.status)
        self._client.reply_error(error, self._own_lines())

    def _break_off(self, error: RouterError) -> None:
        self._release()
        self._count_abort("upstream")
        self._count(self._status)
        self._reply.break_off(error)

    def _stop_upstream(self) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
            self._dialling = None
        if self._upstream is not None:
            self._upstream.drop()
            self._upstream = None

    # Bookkeeping.

    @property
    def _chosen(self) -> Endpoint:
        if self._endpoint is None:
            raise RuntimeError("no endpoint has been chosen")
        return self._endpoint

    @property
    def _where(self) -> str:
        return f"endpoint {self._chosen.name} of service {self._order.service.name}"

    def _own_lines(self) -> bytes:
        route = self._order.route
        headers = [
            (b"x-request-id", self._order.request_id),
            (b"x-baseload-tier", route.tier.encode()),
            (b"x-baseload-version", route.version.encode()),
        ]
        if self._endpoint is not None:
            headers.append((b"x-baseload-endpoint", self._endpoint.name.encode()))
        return header_lines(headers)

    def _allow(self, seconds: float) -> None:
        """Set the time by which something must happen."""
        self._client.allow(seconds)

    def _release(self) -> None:
        """Give the slot back; its endpoint stays known, for headers and messages."""
        self._chosen.in_flight -= 1

    def _count(self, code: int) -> None:
        self._parts.metrics.answered(self._order.route.tier, self._order.route.version, code)

    def _count_retry(self, kind: str) -> None:
        self._parts.metrics.retried(self._order.route.tier, self._order.route.version, kind)

    def _count_abort(self, side: str) -> None:
        self._parts.metrics.aborted(self._order.route.tier, self._order.route.version, side)


def _upstream_lines(order: Order, withheld: frozenset[bytes]) -> bytes:
    """The end of the head that goes upstream, the same for every attempt."""
    headers = upstream_headers(order.request.headers, withheld)
    headers.append((b"x-request-id", order.request_id))
    if order.request.header(b"content-type") is None:
        headers.append((b"content-type", b"application/json"))
    headers.append((b"content-length", b"%d" % len(order.request.body)))
    return header_lines(headers) + b"\r\n"
