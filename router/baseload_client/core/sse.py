"""Watches a completion's event stream go by, to tell a complete answer from a truncated one.

Theory of operation. Bytes are passed on untouched by the caller; the watcher only looks. Events are the
``data:`` lines of server-sent events (WHATWG HTML, 9.2); comments do not count. An answer is complete once
``[DONE]`` came, or once every choice that began has a ``finish_reason``: servers may leave ``[DONE]`` out,
and an empty answer with a finish reason is an answer. An event with a top-level ``error`` is the server
saying that it failed mid-stream.
"""

import json
from collections.abc import Iterator
from typing import Any

MAX_LINE_BYTES = 8 * 1024 * 1024
"""A longer line is given up on (its end is skipped), so that a stream without line ends stays bounded."""


class StreamWatch:
    """Feed it the body's bytes in any pieces; read ``events``, ``complete`` and ``error_status`` at any
    time."""

    def __init__(self) -> None:
        self.events = 0
        """Data events so far, ``[DONE]`` and errors included."""
        self.error_status: int | None = None
        """The status that an error event carried, 500 where it carried none; None without an error event."""
        self._done = False
        self._open: set[int] = set()
        self._finished: set[int] = set()
        self._rest = b""
        self._skipping = False

    @property
    def complete(self) -> bool:
        """Whether the stream may end here without loss."""
        return self._done or (bool(self._finished) and self._open <= self._finished)

    def feed(self, chunk: bytes) -> None:
        for line in self._lines(chunk):
            if line.startswith(b"data:"):
                self.events += 1
                self._look(line[5:].strip())

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        *lines, self._rest = (self._rest + chunk).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if not self._skipping:
                yield line
            self._skipping = False
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest, self._skipping = b"", True

    def _look(self, payload: bytes) -> None:
        if payload == b"[DONE]":
            self._done = True
        else:
            self._read(payload)

    def _read(self, payload: bytes) -> None:
        try:
            event = json.loads(payload)
        except ValueError:
            return
        if not isinstance(event, dict):
            return
        if event.get("error"):
            self.error_status = _status(event["error"])
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            self._note(choice)

    def _note(self, choice: Any) -> None:
        index = choice.get("index", 0) if isinstance(choice, dict) else None
        if not isinstance(index, int):
            return
        self._open.add(index)
        if choice.get("finish_reason") is not None:
            self._finished.add(index)


def _status(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code <= 599 else 500
