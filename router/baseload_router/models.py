"""GET /v1/models: what every service of the graph offers, as one list."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from baseload_router.core.forwarding import Header
from baseload_router.core.target import Target
from baseload_router.directory import Directory
from baseload_router.errors import NoEndpointError, UpstreamFailedError
from baseload_router.http_head import header_lines, request_line
from baseload_router.pool import Endpoint
from baseload_router.server import ClientConnection
from baseload_router.upstream import UpstreamConnection

TIMEOUT_S = 5.0
MAX_LIST_BYTES = 1024 * 1024
_JSON = b"content-type: application/json\r\n"


class _Models(msgspec.Struct):
    data: list[dict[str, Any]]


_decode = msgspec.json.Decoder(_Models).decode


@dataclass(slots=True)
class _Answer:
    """The sink of one list: ``body`` resolves to it, or to an UpstreamFailedError."""

    body: asyncio.Future[bytes]
    connection: UpstreamConnection
    status: int = 0
    received: bytes = b""

    def on_response(self, status: int, headers: list[Header]) -> None:
        self.status = status

    def on_data(self, data: bytes) -> None:
        self.received += data

    def on_pause(self) -> None:
        if len(self.received) > MAX_LIST_BYTES:
            self.connection.drop()
            self._fail("its list of models is too long")

    def on_end(self) -> None:
        if self.status == 200:
            self.body.set_result(self.received)
        else:
            self._fail(f"it answered with status {self.status}")

    def on_lost(self, reason: str) -> None:
        self._fail(reason)

    def _fail(self, reason: str) -> None:
        self.body.set_exception(UpstreamFailedError(reason))


class ModelsListing:
    """Asks one endpoint of each service at once; those that fail are left out, unless all do."""

    def __init__(self, client: ClientConnection, directory: Directory, targets: Sequence[Target]) -> None:
        self._client = client
        self._directory = directory
        self._targets = targets
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; the answer follows."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def on_deadline(self) -> None:
        """Never set: each question has a limit of its own."""

    def pause(self) -> None:
        """The answer is one piece."""

    def resume(self) -> None:
        """The answer is one piece."""

    async def _run(self) -> None:
        lists = await asyncio.gather(*(self._ask(target) for target in self._targets))
        found = [models for models in lists if models is not None]
        if not found:
            self._client.reply_error(NoEndpointError("no service of the graph lists its models now"))
            return
        merged: dict[Any, dict[str, Any]] = {}
        for model in (model for models in found for model in models):
            merged.setdefault(model.get("id"), model)
        body = msgspec.json.encode({"object": "list", "data": list(merged.values())})
        self._client.reply(200, _JSON, body)

    async def _ask(self, target: Target) -> list[dict[str, Any]] | None:
        """The models of one service; None when it does not say."""
        endpoints = self._directory.service(target).endpoints
        for endpoint in sorted(endpoints, key=lambda endpoint: endpoint.in_flight)[:1]:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    return _decode(await _fetch(endpoint, target.path + b"/models")).data
            except (OSError, UpstreamFailedError, msgspec.DecodeError):
                return None
        return None


async def _fetch(endpoint: Endpoint, path: bytes) -> bytes:
    """GET a small document over a connection of its own. Raises OSError or UpstreamFailedError."""
    connection = await endpoint.connect()
    answer = _Answer(asyncio.get_running_loop().create_future(), connection)
    head = request_line(b"GET", path, endpoint.name.encode())
    connection.send(answer, (head + header_lines([(b"accept", b"application/json")]) + b"\r\n",))
    try:
        return await answer.body
    finally:
        if not answer.body.done() or answer.body.cancelled():
            connection.drop()
