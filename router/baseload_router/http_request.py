"""From bytes to whole HTTP/1 requests, within limits and without ambiguity.

llhttp refuses what request smuggling needs: a length given twice or two ways, bare line feeds, folded
headers. What it lets pass and a proxy must not, is refused here: transfer codings besides chunked,
HTTP/0.9, a missing or second Host, and upgrades, whose bytes are no HTTP.
"""

from collections import deque
from enum import Enum

import httptools

from baseload_router.core.forwarding import Header
from baseload_router.errors import BodyTooLargeError, HeadTooLargeError, MalformedRequestError

MAX_HEADERS = 256


class Request:
    """One whole request. Header names are in lower case; ``path`` is as sent, query and all."""

    __slots__ = ("body", "headers", "is_http_10", "keep_alive", "method", "path")

    def __init__(self, method: bytes, path: bytes, headers: list[Header], is_http_10: bool) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.is_http_10 = is_http_10
        self.keep_alive = True
        self.body = b""

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, by its name in lower case."""
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Stage(Enum):
    """What the next byte belongs to."""

    BETWEEN = "between requests"
    HEAD = "head"
    BODY = "body"


class RequestParser:
    """Parses one connection's requests. ``ready`` holds those that are whole, in order."""

    def __init__(self, max_head_bytes: int, max_body_bytes: int) -> None:
        self.ready: deque[Request] = deque()
        self.stage = Stage.BETWEEN
        self.wants_continue = False
        self._max_head_bytes = max_head_bytes
        self._max_body_bytes = max_body_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[Header] = []
        self._head_bytes = 0
        self._begun = 0
        self._open = Request(b"", b"", [], False)
        self._body: list[bytes] = []
        self._body_bytes = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises RouterError; the connection is then of no more use."""
        in_head = self.stage is Stage.HEAD
        begun = self._begun
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise _cause_of(error) from error
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise MalformedRequestError(f"the request is malformed: {error}") from error
        if in_head and self.stage is Stage.HEAD and begun == self._begun:
            self._count_head(len(data))  # all of it belongs to a head that has not ended

    def on_message_begin(self) -> None:
        self.stage = Stage.HEAD
        self._begun += 1
        self._url = b""
        self._headers = []
        self._head_bytes = 0

    def on_url(self, part: bytes) -> None:
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.stage is Stage.HEAD:  # else a trailer, which ends here
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._count_head(sum(len(name) + len(value) + 4 for name, value in self._headers) + len(self._url))
        if len(self._headers) > MAX_HEADERS:
            raise HeadTooLargeError(f"the request has more than {MAX_HEADERS} headers")
        version = self._parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise MalformedRequestError(f"HTTP/{version} is not supported")
        if self._parser.should_upgrade():
            raise MalformedRequestError("CONNECT and Upgrade are not supported; send a plain request")
        request = Request(self._parser.get_method(), self._url, self._headers, version == "1.0")
        self._check(request)
        self.wants_continue = (request.header(b"expect") or b"").lower() == b"100-continue"
        self.stage = Stage.BODY
        self._open = request
        self._body = []
        self._body_bytes = 0

    def on_body(self, part: bytes) -> None:
        self._body_bytes += len(part)
        if self._body_bytes > self._max_body_bytes:
            raise self._body_too_large()
        self._body.append(part)

    def on_message_complete(self) -> None:
        self._open.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        # HTTP/1.0 knows keep-alive only as an extension; such clients are few, so it is not spoken.
        self._open.keep_alive = self._parser.should_keep_alive() and not self._open.is_http_10
        self.ready.append(self._open)
        self.stage = Stage.BETWEEN
        self.wants_continue = False
        self._body = []

    def _check(self, request: Request) -> None:
        hosts = sum(name == b"host" for name, _ in request.headers)
        if hosts > 1 or (hosts == 0 and not request.is_http_10):
            raise MalformedRequestError("the request needs exactly one Host header")
        codings = [value.lower() for name, value in request.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or request.is_http_10):
            raise MalformedRequestError("the only transfer coding supported is chunked, in HTTP/1.1")
        if int(request.header(b"content-length") or 0) > self._max_body_bytes:
            raise self._body_too_large()

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._max_head_bytes:
            raise HeadTooLargeError(f"the request's head is over the limit of {self._max_head_bytes} bytes")

    def _body_too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError(f"the request's body is over the limit of {self._max_body_bytes} bytes")


def _cause_of(error: httptools.HttpParserCallbackError) -> BaseException:
    """What a callback raised. httptools keeps it as the context of its own error."""
    cause: BaseException = error.__context__ or error
    return cause
