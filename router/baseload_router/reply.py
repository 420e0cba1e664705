"""An endpoint's answer on its way to the client.

The body is passed on in the pieces in which it arrives, framed anew. So an error event can follow a
stream that breaks off in the middle of a chunk, and bytes behind the end of an answer never reach a
client.
"""

from enum import Enum

from baseload_router.core.forwarding import Header, downstream_headers
from baseload_router.errors import RouterError
from baseload_router.http_head import header_lines, response_head
from baseload_router.http_request import Request
from baseload_router.server import ClientConnection, connection_line

_LAST_CHUNK = b"0\r\n\r\n"


class Framing(Enum):
    """How the client sees where the body ends."""

    LENGTH = "content-length"
    CHUNKED = "chunked"
    CLOSE = "end of connection"
    NO_BODY = "no body"


class Reply:
    """Passes one answer on. Pieces are gathered and written once per piece that the endpoint sent."""

    __slots__ = ("_client", "_framing", "_head", "_is_event_stream", "_pieces", "_request", "_tail")

    def __init__(self, client: ClientConnection, request: Request) -> None:
        self._client = client
        self._request = request
        self._head = b""
        self._framing = Framing.NO_BODY
        self._pieces: list[bytes] = []
        self._is_event_stream = False
        self._tail = b""

    def begin(self, status: int, headers: list[Header], lines: bytes) -> None:
        """Take the head. ``lines`` are the router's own header lines."""
        found = dict(headers)
        length = found.get(b"content-length")
        self._framing = self._framing_for(status, length)
        self._is_event_stream = (
            found.get(b"content-type", b"").lower().startswith(b"text/event-stream")
            and b"content-encoding" not in found
        )
        keep_alive = self._client.keep_alive and self._framing is not Framing.CLOSE
        ending = connection_line(keep_alive)
        if self._framing is Framing.CHUNKED:
            ending += b"transfer-encoding: chunked\r\n"
        elif length is not None:
            ending += b"content-length: %b\r\n" % length
        self._head = response_head(status, header_lines(downstream_headers(headers)) + lines + ending)

    def add(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self._framing is not Framing.NO_BODY:
            self._pieces.append(data)

    def flush(self) -> None:
        """Write what has been taken."""
        data = self._taken()
        if data:
            self._client.write(data)

    def end(self) -> None:
        """The answer is whole."""
        data = self._taken()
        if self._framing is Framing.CHUNKED:
            data += _LAST_CHUNK
        if data:
            self._client.write(data)
        self._client.finish(close=self._framing is Framing.CLOSE)

    def break_off(self, error: RouterError) -> None:
        """The rest will not come. A stream of events ends with an error event; any other answer is cut,
        so that nobody takes it for whole.
        """
        if not self._is_event_stream or self._framing not in (Framing.CHUNKED, Framing.CLOSE):
            self._client.abort()
            return
        apart = b"" if self._tail.endswith((b"\n\n", b"\r\n\r\n")) else b"\n\n"
        self._pieces.append(b"%bdata: %b\n\n" % (apart, error.openai_body()))
        data = self._taken()
        self._client.write(data + _LAST_CHUNK if self._framing is Framing.CHUNKED else data)
        self._client.finish(close=True)

    def _framing_for(self, status: int, length: bytes | None) -> Framing:
        if self._request.method == b"HEAD" or status in (204, 304):
            return Framing.NO_BODY
        if length is not None:
            return Framing.LENGTH
        return Framing.CLOSE if self._request.is_http_10 else Framing.CHUNKED

    def _taken(self) -> bytes:
        """Head and body since the last write, framed."""
        head = self._head
        self._head = b""
        if not self._pieces:
            return head
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces = []
        if self._is_event_stream:
            self._tail = (self._tail + body)[-4:] if len(body) < 4 else body[-4:]
        if self._framing is Framing.CHUNKED:
            return b"%b%x\r\n%b\r\n" % (head, len(body), body)
        return head + body
