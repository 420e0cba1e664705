"""Which headers pass through the router, in both directions.

Hop-by-hop headers end at each hop (RFC 9110, 7.6.1), with those that ``Connection`` names.
``Authorization`` and ``Cookie`` are meant for this address, not for the model behind it, so they stop
here unless they are allowed. Everything else passes, such as trace context, deadlines and retry marks.
"""

import re
from collections.abc import Iterable, Sequence

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
# The router writes these itself, from what it knows of each hop.
_OWN_UPSTREAM = frozenset((b"host", b"content-length", b"expect", b"x-request-id"))
_OWN_DOWNSTREAM = frozenset(
    (b"content-length", b"x-request-id", b"x-baseload-tier", b"x-baseload-version", b"x-baseload-endpoint")
)
_PRIVATE = (b"authorization", b"cookie")


def withheld(allowed: Iterable[str], patterns: Sequence[re.Pattern[str]]) -> frozenset[bytes]:
    """The header names that never go upstream, in lower case.

    allowed: names of private headers that may pass after all. patterns: KServe's PROPAGATE_HEADERS, searched
    anywhere in a header's canonical name, such as ``Authorization``.
    """
    names = {name.lower().encode() for name in allowed}
    kept = {
        name
        for name in _PRIVATE
        if name not in names and not any(pattern.search(name.decode().title()) for pattern in patterns)
    }
    return HOP_BY_HOP | _OWN_UPSTREAM | kept


def upstream_headers(headers: Sequence[Header], stopped: frozenset[bytes]) -> list[Header]:
    """The client's headers that go on; names are in lower case."""
    named = _named_by_connection(headers)
    return [(name, value) for name, value in headers if name not in stopped and name not in named]


def downstream_headers(headers: Sequence[Header]) -> list[Header]:
    """The endpoint's headers that go back; names are in lower case."""
    named = _named_by_connection(headers)
    return [
        (name, value)
        for name, value in headers
        if name not in HOP_BY_HOP and name not in _OWN_DOWNSTREAM and name not in named
    ]


def _named_by_connection(headers: Sequence[Header]) -> frozenset[bytes]:
    for name, value in headers:
        if name == b"connection" and value.lower() not in (b"keep-alive", b"close"):
            return _tokens(headers)
    return frozenset()


def _tokens(headers: Sequence[Header]) -> frozenset[bytes]:
    values = [value for name, value in headers if name == b"connection"]
    return frozenset(token.strip().lower() for value in values for token in value.split(b","))
