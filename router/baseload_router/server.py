"""The HTTP/1.1 side that clients see: connections, their deadlines, pipelining, draining.

A connection answers its requests one at a time and in order. While one is being answered, bytes of the
next are still read, so that a client that leaves is noticed at once; reading stops when a whole request
waits, which bounds the memory of a connection. A client that closes its sending side only is taken to
have left.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, cast

from baseload_router.core.policy import Policy
from baseload_router.errors import NotReadyError, RequestTimeoutError, RouterError
from baseload_router.http_head import header_lines, response_head
from baseload_router.http_request import Request, RequestParser, Stage
from baseload_router.upstream import tune

SWEEP_INTERVAL_S = 0.25
LINGER_S = 2.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Responder(Protocol):
    """Who answers a request. It is asked to stop or to slow down by these calls."""

    def cancel(self) -> None:
        """The client has left."""
        ...

    def on_deadline(self) -> None:
        """The deadline that it set on its connection has passed."""
        ...

    def pause(self) -> None:
        """The client takes no more for now."""
        ...

    def resume(self) -> None:
        """The client takes more again."""
        ...


class Phase(Enum):
    """What a connection's deadline is for."""

    IDLE = "no request"
    READING = "a request is coming"
    BUSY = "a request is being answered"
    STALLED = "the client does not take its answer"
    LEAVING = "the last bytes are on their way"


@dataclass(frozen=True, slots=True)
class ServerParts:
    """What every connection needs of the rest: what to do with a request, how errors look, limits, time."""

    handle: Callable[["ClientConnection", Request], Responder | None]
    error_body: Callable[[RouterError], bytes]
    policy: Policy
    clock: Callable[[], float]


class ClientConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: "HttpServer", parts: ServerParts) -> None:
        self.deadline = math.inf
        self.transport: asyncio.Transport
        self._server = server
        self._parts = parts
        self._parser = RequestParser(parts.policy.max_head_bytes, parts.policy.max_body_bytes)
        self._phase = Phase.IDLE
        self._request: Request | None = None
        self._responder: Responder | None = None
        self._refusal: RouterError | None = None
        self._pumping = False
        self._writable = True
        self._reading = True
        self._reading_head = False

    # What a responder does.

    @property
    def keep_alive(self) -> bool:
        """Whether the connection outlives the request in hand."""
        request = self._request
        return request is not None and request.keep_alive and not self._server.draining

    def reply(self, status: int, lines: bytes, body: bytes) -> None:
        """Answer the request in hand as a whole. ``lines`` are header lines besides the framing."""
        self.write(self._whole_reply(status, lines, body, keep_alive=self.keep_alive))
        self.finish()

    def reply_error(self, error: RouterError, lines: bytes = b"") -> None:
        """Answer the request in hand with an error."""
        self.reply(error.status, _error_lines(error) + lines, self._parts.error_body(error))

    def allow(self, seconds: float) -> None:
        """Have the responder's deadline called unless something happens within this time. A client that does
        not take its answer has a deadline of its own meanwhile.
        """
        if self._phase is Phase.BUSY:
            self.deadline = self._parts.clock() + seconds

    def write(self, data: bytes) -> None:
        """Send bytes of the answer as they are."""
        self.transport.write(data)

    def finish(self, *, close: bool = False) -> None:
        """The answer is complete; go on with the next request, or close."""
        keep = self.keep_alive and not close
        self._request = None
        self._responder = None
        if keep:
            self._pump()
        else:
            self._close()

    def abort(self) -> None:
        """Break the answer off, so that the client cannot take it for whole."""
        self._request = None
        self._responder = None
        self.transport.abort()

    # What the event loop does.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, since uvloop's transports have the interface but not the class.
        self.transport = cast(asyncio.Transport, transport)
        tune(self.transport)
        self.deadline = self._parts.clock() + self._parts.policy.head_timeout_s
        if not self._server.admit(self):
            self._refuse(NotReadyError("the router has as many connections as it may have"))

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None or self._phase is Phase.LEAVING:
            return
        try:
            self._parser.feed(data)
        except RouterError as error:
            self._refusal = error
        if self._parser.wants_continue and self._request is None and self._refusal is None:
            self._parser.wants_continue = False
            self.write(_CONTINUE)
        self._pump()

    def pause_writing(self) -> None:
        self._writable = False
        if self._phase is not Phase.LEAVING:
            self._enter(Phase.STALLED, self._parts.policy.client_stall_s)
        if self._responder is not None:
            self._responder.pause()

    def resume_writing(self) -> None:
        self._writable = True
        if self._phase is Phase.STALLED:
            self._enter(Phase.BUSY, math.inf)
        if self._responder is not None:
            self._responder.resume()
        elif self._phase is not Phase.LEAVING:
            self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.forget(self)
        responder = self._responder
        self._responder = None
        if responder is not None:
            responder.cancel()

    # What the server does.

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun to arrive or is being answered."""
        return self._phase is Phase.IDLE

    def on_deadline(self) -> None:
        """The deadline has passed."""
        self.deadline = math.inf
        match self._phase:
            case Phase.BUSY:
                if self._responder is not None:
                    self._responder.on_deadline()
            case Phase.READING:
                self._refuse(RequestTimeoutError("the request did not arrive in time"))
            case Phase.IDLE:
                self._close()
            case Phase.STALLED | Phase.LEAVING:
                self.transport.abort()

    # Inside.

    def _pump(self) -> None:
        """Answer what is ready. Not recursive: an answer that is given at once comes back to this loop."""
        if self._pumping:
            return
        self._pumping = True
        while self._request is None and self._parser.ready and self._writable and self._is_open:
            self._request = self._parser.ready.popleft()
            self._enter(Phase.BUSY, math.inf)
            responder = self._parts.handle(self, self._request)
            if self._request is not None:
                self._responder = responder
        self._pumping = False
        self._read(not self._parser.ready)
        if self._request is None and self._is_open and self._writable:
            self._await_request()

    def _await_request(self) -> None:
        if self._refusal is not None:
            self._refuse(self._refusal)
        elif self._parser.stage is Stage.BETWEEN:
            if self._phase is not Phase.IDLE:
                self._enter(Phase.IDLE, self._parts.policy.keepalive_idle_s)
        elif self._phase is not Phase.READING:
            policy = self._parts.policy
            in_head = self._parser.stage is Stage.HEAD
            self._enter(Phase.READING, policy.head_timeout_s if in_head else policy.body_timeout_s)
            self._reading_head = in_head
        elif self._reading_head and self._parser.stage is Stage.BODY:
            self._reading_head = False
            self._enter(Phase.READING, self._parts.policy.body_timeout_s)

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        self.deadline = self._parts.clock() + seconds

    @property
    def _is_open(self) -> bool:
        return self._phase is not Phase.LEAVING and not self.transport.is_closing()

    def _read(self, wanted: bool) -> None:
        if wanted == self._reading or self.transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def _close(self) -> None:
        self._enter(Phase.LEAVING, self._parts.policy.client_stall_s)
        self.transport.close()

    def _refuse(self, error: RouterError) -> None:
        """Answer and close, though more may be arriving. Closing at once would reset the connection, and the
        client might lose the answer: so only the sending side is closed, and what arrives is thrown away.
        """
        body = self._parts.error_body(error)
        self._enter(Phase.LEAVING, LINGER_S)
        self.write(self._whole_reply(error.status, _error_lines(error), body, keep_alive=False))
        self.transport.write_eof()
        self._read(True)

    def _whole_reply(self, status: int, lines: bytes, body: bytes, *, keep_alive: bool) -> bytes:
        ending = b"content-length: %d\r\n%b" % (len(body), connection_line(keep_alive))
        is_head = self._request is not None and self._request.method == b"HEAD"
        return response_head(status, lines + ending) + (b"" if is_head else body)


class HttpServer:
    """Listens, watches deadlines, drains."""

    def __init__(self, parts: ServerParts) -> None:
        self.draining = False
        self._parts = parts
        self._connections: set[ClientConnection] = set()
        self._listener: asyncio.Server | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    async def listen(self, host: str, port: int) -> int:
        """Open the port and return its number, which matters for port 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: ClientConnection(self, self._parts), host, port, backlog=1024
        )
        return int(self._listener.sockets[0].getsockname()[1])

    async def run_sweeps(self) -> None:
        """Look at the deadlines until cancelled. One timer for all, instead of one a request."""
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            self.sweep()

    def sweep(self) -> None:
        """Act on every deadline that has passed."""
        now = self._parts.clock()
        for connection in tuple(self._connections):
            if connection.deadline <= now:
                connection.on_deadline()

    async def drain(self, grace_s: float) -> int:
        """Take no more requests, let those in flight finish; how many did not within ``grace_s``."""
        self.draining = True
        if self._listener is not None:
            self._listener.close()
        for connection in tuple(self._connections):
            if connection.is_idle:
                connection.transport.close()
        try:
            await asyncio.wait_for(self._empty.wait(), grace_s)
        except TimeoutError:
            left = len(self._connections)
            for connection in tuple(self._connections):
                connection.transport.abort()
            await self._empty.wait()
            return left
        return 0

    def admit(self, connection: ClientConnection) -> bool:
        """Take note of a new connection; False when it is one too many."""
        self._connections.add(connection)
        self._empty.clear()
        return len(self._connections) <= self._parts.policy.max_connections

    def forget(self, connection: ClientConnection) -> None:
        """A connection is closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()


def connection_line(keep_alive: bool) -> bytes:
    """What the client is told about the connection; nothing where HTTP/1.1's default holds."""
    return b"" if keep_alive else b"connection: close\r\n"


def _error_lines(error: RouterError) -> bytes:
    headers = [(b"content-type", b"application/json")]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % error.retry_after))
    return header_lines(headers)
