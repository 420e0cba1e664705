"""Telling a complete stream from a truncated one."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_client.core import sse
from baseload_client.core.sse import StreamWatch


def event(payload: Any) -> bytes:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return f"data: {text}\n\n".encode()


def token(index: int = 0, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": "x"}, "finish_reason": finish}]}


def watch(*payloads: Any) -> StreamWatch:
    watched = StreamWatch()
    for payload in payloads:
        watched.feed(event(payload))
    return watched


def test_done_completes() -> None:
    assert watch(token(), "[DONE]").complete


def test_finish_reason_completes_without_done() -> None:
    assert watch(token(), token(finish="stop")).complete


def test_empty_answer_with_a_finish_reason_completes() -> None:
    assert watch({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).complete


def test_tokens_alone_do_not_complete() -> None:
    watched = watch(token(), token(), token())
    assert not watched.complete
    assert watched.events == 3


def test_every_choice_that_began_must_finish() -> None:
    watched = watch(token(0), token(1), token(0, "stop"))
    assert not watched.complete
    watched.feed(event(token(1, "length")))
    assert watched.complete


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"message": "full", "code": 503}, 503),
        ({"code": 400}, 400),
        ({"code": "x"}, 500),
        ("no", 500),
    ],
)
def test_error_event_is_seen_with_its_status(error: Any, status: int) -> None:
    watched = watch(token(), {"error": error})
    assert watched.error_status == status
    assert not watched.complete


@pytest.mark.parametrize(
    "payload", ["not json", "[1]", {"choices": None}, {"choices": [None]}, {"choices": [{"index": "a"}]}, {}]
)
def test_unknown_events_are_counted_and_never_break_the_watch(payload: Any) -> None:
    watched = watch(payload)
    assert watched.events == 1
    assert not watched.complete


def test_comments_and_other_fields_are_no_events() -> None:
    watched = StreamWatch()
    watched.feed(b": ping\n\nevent: message\nid: 1\n\n")
    assert watched.events == 0


def test_a_line_without_end_is_given_up_and_the_next_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_LINE_BYTES", 16)
    watched = StreamWatch()
    watched.feed(b"data: " + b"x" * 32)
    watched.feed(b"data: [DONE]\n")
    assert not watched.complete
    watched.feed(b"data: [DONE]\n")
    assert watched.complete


@given(st.data())
def test_pieces_make_no_difference(data: st.DataObject) -> None:
    raw = (
        event(token()).replace(b"\n", b"\r\n") + event(token(finish="stop")) + b": ping\n\n" + event("[DONE]")
    )
    watched = StreamWatch()
    while raw:
        size = data.draw(st.integers(1, len(raw)))
        watched.feed(raw[:size])
        raw = raw[size:]
    assert watched.complete
    assert watched.events == 3
