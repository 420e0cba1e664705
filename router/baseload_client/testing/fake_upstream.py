"""A fake OpenAI-compatible upstream with scripted faults, on a real socket.

    with FakeUpstream() as upstream:
        upstream.script(Reply(status=503), Reply(tokens=["a", "b"]), Hang())
        ...                                  # the code under test calls upstream.url
        upstream.wait_for(2)
        assert upstream.requests[1].headers["x-retry-attempt"] == "1"

It serves chat completions, completions and models under ``/v1`` and ``/openai/v1``, streaming and not.
Each POST takes the next script item; with the script used up, ``default`` answers (at first a completion
that echoes the model's name). The server runs an event loop of its own in a thread, so it serves
synchronous and asynchronous tests alike.
"""

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from baseload_client.testing import payloads
from baseload_client.testing.http11 import Connection
from baseload_client.testing.replies import CloseBeforeReply, CutAfter, Echo, Hang, Reply, Scripted

BASES = ("/v1", "/openai/v1")
PATHS = ("/chat/completions", "/completions")
PATIENCE_S = 5.0
"""How long a wait for something that must happen may take before the test fails."""


@dataclass(slots=True)
class RecordedRequest:
    """A request as it arrived, and what became of it.

    headers: by lower-case name. body: the parsed JSON, or None. received_at, disconnected_at: monotonic
    seconds. ``disconnected`` is set if the client left before the reply was complete; ``answered`` once all
    of the reply was written.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    raw_body: bytes
    received_at: float
    body: Any = None
    disconnected_at: float | None = None
    disconnected: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)

    @property
    def model(self) -> str:
        """The body's ``model``, or an empty string."""
        return str(self.body.get("model", "")) if isinstance(self.body, dict) else ""

    @property
    def streams(self) -> bool:
        return isinstance(self.body, dict) and self.body.get("stream") is True

    def wait_disconnected(self, timeout: float = PATIENCE_S) -> bool:
        """Blocks until the client has left; False if it did not within ``timeout`` seconds."""
        return self.disconnected.wait(timeout)

    async def until_disconnected(self, timeout: float = PATIENCE_S) -> bool:  # noqa: ASYNC109 - a plain wait
        """``wait_disconnected`` for asynchronous tests."""
        return await asyncio.to_thread(self.disconnected.wait, timeout)


class FakeUpstream:
    """See the module. ``headers`` go onto every reply, such as ``{"x-baseload-tier": "small"}``."""

    def __init__(
        self,
        *,
        models: Sequence[str] = ("small", "large"),
        headers: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        self.models = tuple(models)
        self.headers = dict(headers or {})
        self.default: Scripted = Reply()
        self.requests: list[RecordedRequest] = []
        self._port = port
        self._script: deque[Scripted] = deque()
        self._by_path: dict[str, deque[Scripted]] = {}
        self._changed = threading.Condition()
        self._connections: set[Connection] = set()

    @property
    def url(self) -> str:
        """``http://127.0.0.1:PORT``, without a path."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:PORT/v1``, what an OpenAI client takes."""
        return f"{self.url}/v1"

    @property
    def port(self) -> int:
        return self._port

    def script(self, *items: Scripted, path: str | None = None) -> None:
        """Adds replies: for the next POSTs, or for the next requests of any method to exactly ``path``."""
        queue = self._script if path is None else self._by_path.setdefault(path, deque())
        queue.extend(items)

    def wait_for(self, count: int, timeout: float = PATIENCE_S) -> list[RecordedRequest]:
        """Blocks until ``count`` requests have arrived. Raises TimeoutError with what did arrive."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout):
                arrived = [f"{request.method} {request.path}" for request in self.requests]
                raise TimeoutError(f"{len(arrived)} of {count} requests arrived in {timeout} s: {arrived}")
        return list(self.requests)

    async def arrived(self, count: int, timeout: float = PATIENCE_S) -> list[RecordedRequest]:  # noqa: ASYNC109
        """``wait_for`` for asynchronous tests."""
        return await asyncio.to_thread(self.wait_for, count, timeout)

    def start(self) -> None:
        """Binds the port and serves from a thread of its own. A restart takes the same port again."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-upstream", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)
        except OSError:
            self._end_thread()
            raise

    def stop(self) -> None:
        """Drops every connection and frees the port; connecting is refused from now on."""
        asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop).result(PATIENCE_S)
        self._end_thread()

    def _end_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(
            lambda: Connection(self._serve), "127.0.0.1", self._port
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def _shut_down(self) -> None:
        self._server.close()
        for connection in tuple(self._connections):
            connection.gone.set()
            connection.writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others)

    async def _serve(self, connection: Connection) -> None:
        self._connections.add(connection)
        try:
            while True:
                request = self._record(*await connection.read_request())
                await self._answer_watched(connection, request)
        finally:
            self._connections.discard(connection)

    def _record(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> RecordedRequest:
        request = RecordedRequest(method, path, headers, raw, time.monotonic(), _parsed(raw))
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        return request

    async def _answer_watched(self, connection: Connection, request: RecordedRequest) -> None:
        try:
            await self._answer(connection, request, self._next_item(request))
            request.answered.set()
        finally:
            if connection.gone.is_set() and not request.answered.is_set():
                request.disconnected_at = time.monotonic()
                request.disconnected.set()

    def _next_item(self, request: RecordedRequest) -> Scripted:
        path = request.path.partition("?")[0]
        if self._by_path.get(path):
            return self._by_path[path].popleft()
        if request.method == "POST" and self._script:
            return self._script.popleft()
        if request.method == "GET" and path in {base + "/models" for base in BASES}:
            return Reply(body=payloads.models(self.models))
        if request.method == "POST" and path in {base + end for base in BASES for end in PATHS}:
            return self.default
        return Reply(status=404)

    async def _answer(self, connection: Connection, request: RecordedRequest, item: Scripted) -> None:
        match item:
            case Reply():
                await self._reply(connection, request, item)
            case Echo():
                seen = {"method": request.method, "path": request.path, "body": request.body}
                connection.send_whole(200, self.headers, {**seen, "headers": dict(request.headers)})
            case CutAfter():
                await self._cut(connection, request, item)
            case Hang():
                self._begin_stream(connection, request, item.after_events, item.headers)
                await connection.until_gone()
            case CloseBeforeReply():
                await _hang_up(connection)

    async def _reply(self, connection: Connection, request: RecordedRequest, item: Reply) -> None:
        if item.gate is not None and item.gate_after == 0:
            await connection.while_here(item.gate.wait())
        headers = {**self.headers, **item.headers}
        if item.events is None and (item.status != 200 or item.body is not None or not request.streams):
            connection.send_whole(item.status, headers, _whole_body(request, item))
            return
        connection.start_stream(headers)
        for position, payload in enumerate(_stream_payloads(request, item)):
            if item.gate is not None and position == item.gate_after > 0:
                await connection.while_here(item.gate.wait())
            connection.send_event(payload)
        connection.end_stream()

    async def _cut(self, connection: Connection, request: RecordedRequest, item: CutAfter) -> None:
        self._begin_stream(connection, request, item.events, item.headers, at_least_the_head=True)
        if item.clean:
            connection.end_stream()
        else:
            await _hang_up(connection)

    def _begin_stream(
        self,
        connection: Connection,
        request: RecordedRequest,
        count: int,
        headers: Mapping[str, str],
        *,
        at_least_the_head: bool = False,
    ) -> None:
        if count or at_least_the_head:
            connection.start_stream({**self.headers, **headers})
        for payload in payloads.events(request.path, request.model, [f"t{n} " for n in range(count)]):
            connection.send_event(payload)


def _whole_body(request: RecordedRequest, item: Reply) -> Any:
    if item.body is not None:
        return item.body
    if item.status != 200:
        return payloads.error(item.status)
    return payloads.completion(request.path, request.model, _tokens(request, item), item.finish_reason)


def _stream_payloads(request: RecordedRequest, item: Reply) -> list[str]:
    if item.events is not None:
        return list(item.events)
    tokens = _tokens(request, item)
    options = request.body.get("stream_options") or {}
    used = len(tokens) if options.get("include_usage") else None
    tail = payloads.last_events(request.path, request.model, item.finish_reason, item.done, used)
    return [*payloads.events(request.path, request.model, tokens), *tail]


def _tokens(request: RecordedRequest, item: Reply) -> Sequence[str]:
    return ("reply", " from ", request.model) if item.tokens is None else item.tokens


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


async def _hang_up(connection: Connection) -> None:
    """Closes from the server's side, and waits for it, so that it does not count as the client leaving."""
    connection.writer.close()
    await connection.writer.wait_closed()
