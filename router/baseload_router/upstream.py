"""One connection to an endpoint: sends a request, frames its response, hands it on piece by piece."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Protocol, cast

import httptools

from baseload_router.core.forwarding import Header

MAX_RESPONSE_HEAD_BYTES = 64 * 1024


class Sink(Protocol):
    """Who takes a response. It ends with ``on_end`` or ``on_lost``, unless it is dropped first."""

    def on_response(self, status: int, headers: list[Header]) -> None:
        """The head has come. Header names are in lower case."""
        ...

    def on_data(self, data: bytes) -> None:
        """A piece of the body, without its framing."""
        ...

    def on_pause(self) -> None:
        """All that has arrived so far has been handed on, and more is to come."""
        ...

    def on_end(self) -> None:
        """The response is whole; the connection has already been given back."""
        ...

    def on_lost(self, reason: str) -> None:
        """The response will not come, or breaks off."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """A connection that serves one request at a time. ``on_free`` and ``on_gone`` tell its pool about it."""

    def __init__(
        self,
        on_free: Callable[["UpstreamConnection"], None],
        on_gone: Callable[["UpstreamConnection"], None],
    ) -> None:
        self.transport: asyncio.Transport
        self._on_free = on_free
        self._on_gone = on_gone
        self._sink: Sink | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: list[Header] = []
        self._head_bytes = 0
        self._head_done = False  # the final head, not that of an interim response
        self._whole = False
        self._excess = False  # bytes came after the end: the connection is out of step
        self._until_close = False
        self._keep_alive = False

    def send(self, sink: Sink, pieces: Sequence[bytes]) -> None:
        """Send one request; its response goes to ``sink``."""
        self._sink = sink
        self._parser = httptools.HttpResponseParser(self)
        self._headers = []
        self._head_bytes = 0
        self._head_done = self._whole = self._excess = self._until_close = self._keep_alive = False
        self.transport.writelines(pieces)

    def drop(self) -> None:
        """Give the request up: the endpoint sees the connection close, and the sink hears no more."""
        self._sink = None
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, since uvloop's transports have the interface but not the class.
        self.transport = cast(asyncio.Transport, transport)
        tune(self.transport)

    def data_received(self, data: bytes) -> None:
        sink = self._sink
        if sink is None:  # nothing was asked: whatever this is, the connection is out of step
            self.transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise  # a fault of this program, not of the endpoint
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._excess = True
            if not self._whole:
                self._break(sink, f"it answered with malformed HTTP: {error}")
                return
        if self._whole:
            self._finish(sink)
        elif not self._head_done and self._oversized(len(data)):
            self._break(sink, "the head of its answer is too large")
        elif self._head_done:
            sink.on_pause()

    def connection_lost(self, exc: Exception | None) -> None:
        sink = self._sink
        self._sink = None
        self._on_gone(self)
        if sink is None:
            return
        if self._head_done and self._until_close and exc is None:
            sink.on_end()
        else:
            sink.on_lost(f"it closed the connection ({exc})" if exc else "it closed the connection")

    def on_message_begin(self) -> None:
        self._excess = self._whole

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # else a trailer, which ends here
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._sink is None or self._whole or status < 200:
            return
        self._head_done = True
        names = {name for name, _ in self._headers}
        framed = b"content-length" in names or b"transfer-encoding" in names or status in (204, 304)
        self._until_close = not framed
        self._sink.on_response(status, self._headers)

    def on_body(self, part: bytes) -> None:
        if self._sink is not None and self._head_done and not self._whole:
            self._sink.on_data(part)

    def on_message_complete(self) -> None:
        if self._head_done:
            self._whole = True
            self._keep_alive = self._parser.should_keep_alive()
        else:  # an interim response, such as 103
            self._headers = []

    def _finish(self, sink: Sink) -> None:
        self._sink = None
        if self._keep_alive and not self._excess:
            self._on_free(self)
        else:
            self.transport.close()
        sink.on_end()

    def _break(self, sink: Sink, reason: str) -> None:
        self.drop()
        sink.on_lost(reason)

    def _oversized(self, size: int) -> bool:
        self._head_bytes += size
        return self._head_bytes > MAX_RESPONSE_HEAD_BYTES


def tune(transport: asyncio.Transport) -> None:
    """Send small pieces at once: Nagle's algorithm holds tokens back for 40 ms."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
