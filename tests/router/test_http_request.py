"""Requests from bytes: limits, and everything that a proxy must not let pass."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_router.errors import (
    BodyTooLargeError,
    HeadTooLargeError,
    MalformedRequestError,
    RouterError,
)
from baseload_router.http_request import RequestParser, Stage

READYZ = b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n"
TWO = (
    b"POST /v1/chat/completions?a=b HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nContent-Length: 5\r\n\r\nhello"
    b"POST /next HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: 1\r\n\r\n"
)


def parse(*pieces: bytes, max_head: int = 4096, max_body: int = 4096) -> RequestParser:
    parser = RequestParser(max_head, max_body)
    for piece in pieces:
        parser.feed(piece)
    return parser


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(at), len(data)]
    return [data[a:b] for a, b in pairwise(edges) if a < b]


@given(st.lists(st.integers(0, len(TWO)), max_size=12))
def test_requests_are_the_same_however_their_bytes_arrive(at: list[int]) -> None:
    parser = parse(*cut(TWO, at))
    first, second = parser.ready
    assert (first.method, first.path, first.body) == (b"POST", b"/v1/chat/completions?a=b", b"hello")
    assert first.headers == [(b"host", b"a"), (b"x-one", b"1"), (b"content-length", b"5")]
    assert (second.path, second.body) == (b"/next", b"abc")
    assert second.header(b"t") is None, "a trailer is not a header"
    assert parser.stage is Stage.BETWEEN


@given(st.binary(max_size=300))
def test_no_bytes_do_worse_than_a_router_error(data: bytes) -> None:
    parser = RequestParser(4096, 4096)
    with suppress(RouterError):
        parser.feed(b"POST / HTTP/1.1\r\nhost: a\r\n" + data)
    assert len(parser.ready) <= len(data)


def test_keep_alive_follows_version_and_header() -> None:
    cases = {
        b"GET / HTTP/1.1\r\nhost: a\r\n\r\n": True,
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n": False,
        b"GET / HTTP/1.0\r\n\r\n": False,
        b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n": False,
    }
    for data, keep_alive in cases.items():
        (request,) = parse(data).ready
        assert request.keep_alive is keep_alive
        assert request.is_http_10 is (b"1.0" in data)


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 3\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 3\r\n",
        b"content-length: 3\r\ncontent-length: 4\r\n",
        b"content-length: +3\r\n",
        b"content-length : 3\r\n",
        b"transfer-encoding: xchunked\r\n",
        b"transfer-encoding: gzip, chunked\r\n",
        b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
        b"transfer-encoding: chunked, identity\r\n",
        b"x: a\r\n b\r\n",
        b"x: a\n",
        b"x: a\0b\r\n",
        b"host: b\r\n",
        b"upgrade: h2c\r\nconnection: upgrade\r\n",
    ],
)
def test_heads_that_two_servers_could_read_differently_are_refused(head: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        parse(b"POST / HTTP/1.1\r\nhost: a\r\n" + head + b"\r\nabc")


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\nhost: a\n\n",
        b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
def test_what_is_no_plain_http_1_request_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        parse(data)


def test_a_request_that_follows_a_good_one_can_be_refused_alone() -> None:
    parser = RequestParser(4096, 4096)
    with pytest.raises(MalformedRequestError):
        parser.feed(b"GET /good HTTP/1.1\r\nhost: a\r\n\r\nGET /bad HTTP/1.1\r\n\r\n")
    assert [request.path for request in parser.ready] == [b"/good"]


def test_a_head_over_the_limit_is_refused_whole_or_in_pieces() -> None:
    head = b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 2000
    with pytest.raises(HeadTooLargeError):
        parse(head + b"\r\n\r\n", max_head=1024)
    with pytest.raises(HeadTooLargeError):
        parse(*(head[at : at + 100] for at in range(0, len(head), 100)), max_head=1024)
    with pytest.raises(HeadTooLargeError):
        parse(b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 300 + b"\r\n")


def test_many_requests_in_one_piece_are_not_a_large_head() -> None:
    parser = parse(b"GET / HTTP/1.1\r\nho", b"st: a\r\n\r\n" + READYZ * 500 + b"GET /", max_head=1024)
    assert len(parser.ready) == 501


def test_a_body_over_the_limit_is_refused_before_it_has_come() -> None:
    with pytest.raises(BodyTooLargeError):
        parse(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 101\r\n\r\n", max_body=100)
    chunked = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    piece = b"40\r\n" + b"x" * 64 + b"\r\n"
    with pytest.raises(BodyTooLargeError):
        parse(chunked, piece, piece, max_body=100)


def test_a_client_that_waits_to_be_asked_for_its_body_is_noticed() -> None:
    parser = parse(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n")
    assert parser.wants_continue
    parser.feed(b"x")
    assert not parser.wants_continue
