"""HTTP/1.1 heads as bytes."""

from collections.abc import Iterable
from http import HTTPStatus

from baseload_router.core.forwarding import Header

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


def header_lines(headers: Iterable[Header]) -> bytes:
    """Headers, each line ended, without the empty line that ends a head."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def response_head(status: int, lines: bytes) -> bytes:
    """A whole response head. ``lines`` are ended header lines."""
    first = _STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    return b"%b%b\r\n" % (first, lines)


def request_line(method: bytes, path: bytes, authority: bytes) -> bytes:
    """The first line of a request, and its Host."""
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (method, path, authority)
