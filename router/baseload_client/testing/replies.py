"""What a fake upstream can be told to do with a request: one script item a request."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


class Gate:
    """Holds a reply back until the test opens it; may be opened from any thread, and stays open."""

    def __init__(self) -> None:
        self._opened: Future[None] = Future()

    def open(self) -> None:
        if not self._opened.done():
            self._opened.set_result(None)

    async def wait(self) -> None:
        # Shielded, because a waiter that is cancelled must not close the gate for the others.
        await asyncio.shield(asyncio.wrap_future(self._opened))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A complete reply.

    With status 200 and neither ``body`` nor ``events`` it is a well-formed completion of ``tokens``
    (by default a text that names the model; an empty sequence is an empty answer): as
    server-sent events where the request says ``"stream": true``, one event a token, and as JSON otherwise.
    A status of 400 or more without a body carries OpenAI's error body.

    body: sent as it is (bytes, text) or as JSON (anything else).
    events: the payloads of the ``data:`` lines, to send exactly this stream.
    gate, gate_after: wait for the gate once so many events are out; 0 is before the first byte.
    done: whether the stream ends with ``data: [DONE]``.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    tokens: Sequence[str] | None = None
    events: Sequence[str] | None = None
    finish_reason: str | None = "stop"
    done: bool = True
    gate: Gate | None = None
    gate_after: int = 0


@dataclass(frozen=True, slots=True)
class Echo:
    """A 200 whose JSON body tells the request: ``method``, ``path``, ``headers``, ``body``."""


@dataclass(frozen=True, slots=True)
class CloseBeforeReply:
    """Closes the connection after the request was read, without a byte of reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutAfter:
    """Starts a stream and ends it after ``events`` tokens, with neither finish_reason nor ``[DONE]``.

    clean: True ends the HTTP body properly (a server that gave up), False drops the connection in the
    middle of it (a server that died).
    """

    events: int
    clean: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Sends ``after_events`` tokens of a stream (0: no byte at all), then nothing until the client leaves."""

    after_events: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


Scripted = Reply | Echo | CloseBeforeReply | CutAfter | Hang
