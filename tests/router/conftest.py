"""A router in the test's own loop, in front of fake upstreams, on a clock that only the test moves."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from baseload_client.testing import FakeUpstream, VirtualClock
from baseload_manifests.core.graph import InferenceGraphSpec
from baseload_manifests.core.graph_rules import check_spec
from baseload_router.app import Router
from baseload_router.core.endpoint_list import EndpointList
from baseload_router.core.forwarding import withheld
from baseload_router.core.policy import Policy
from baseload_router.core.walk import compile_graph
from baseload_router.directory import Directory
from baseload_router.server import HttpServer, ServerParts

CHAT_GRAPH: dict[str, Any] = {
    "root": {
        "routerType": "Switch",
        "steps": [
            {"name": "small", "nodeName": "small", "condition": '[@this].#(model=="small")'},
            {"name": "large", "nodeName": "large", "condition": '[@this].#(model=="large")'},
            {"name": "auto", "nodeName": "large", "condition": "@tier:large"},
            {"name": "default", "nodeName": "small", "condition": '[@this].#(model=="auto")'},
        ],
    },
    "small": {
        "routerType": "Splitter",
        "steps": [{"name": "stable", "serviceUrl": "http://small-predictor/openai/v1", "weight": 100}],
    },
    "large": {
        "routerType": "Splitter",
        "steps": [{"name": "stable", "serviceUrl": "http://large-predictor/openai/v1", "weight": 100}],
    },
}


class RawConnection:
    """A client that writes bytes and reads whole responses or what has come so far."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> str:
        """The next response head."""
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """The next response with a content-length: status, headers, body."""
        first, *lines = (await self.head()).rstrip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(first.split(" ")[1]), headers, body

    async def rest(self) -> bytes:
        """All bytes until the router closes."""
        return await self.reader.read()

    def abort(self) -> None:
        self.writer.transport.abort()


class RunningRouter:
    """A router that listens, with what a test looks at."""

    def __init__(
        self,
        nodes: Mapping[str, Any],
        services: Mapping[str, Sequence[str]] | None,
        policy: Policy,
        capacity: int | None = None,
    ) -> None:
        spec = InferenceGraphSpec.model_validate({"nodes": dict(nodes)})
        assert check_spec(spec) == ()
        graph = compile_graph(spec)
        self.clock = VirtualClock()
        self.policy = policy
        is_file_used = services is not None
        self.directory = Directory(graph.targets, policy.default_capacity, is_file_used=is_file_used)
        self.router = Router(
            graph,
            policy,
            self.directory,
            withheld=withheld(policy.forward_headers, []),
            clock=self.clock.now,
            rng=Random(5),
        )
        self.server = HttpServer(
            ServerParts(self.router.handle, self.router.error_body, policy, self.clock.now)
        )
        self._connections: list[RawConnection] = []
        self.port = 0
        if services is not None:
            self.set_endpoints(services, capacity)

    async def start(self) -> None:
        self.port = await self.server.listen("127.0.0.1", 0)
        self.client = httpx2.AsyncClient(base_url=self.url, timeout=10.0, trust_env=False)

    async def stop(self) -> None:
        await self.client.aclose()
        for connection in self._connections:
            connection.abort()
        await self.server.drain(0.0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set_endpoints(self, services: Mapping[str, Sequence[str]], capacity: int | None = None) -> None:
        listed = {
            name: {"endpoints": [{"url": url, "capacity": capacity} for url in urls]}
            for name, urls in services.items()
        }
        self.directory.update(EndpointList.model_validate({"version": 1, "services": listed}))

    def pass_time(self, seconds: float) -> None:
        """Let deadlines of this length pass."""
        self.clock.advance(seconds)
        self.server.sweep()

    def in_flight(self) -> int:
        return sum(endpoint.in_flight for _, endpoint in self.directory.endpoints())

    async def metric(self, name: str, **labels: str) -> float:
        """One sample of /metrics; 0 when it is not there."""
        text = (await self.client.get("/metrics")).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return 0.0

    async def chat(self, model: str = "small", **more: Any) -> httpx2.Response:
        """POST a chat request."""
        content = more.pop("content", "hi")
        headers = more.pop("headers", {})
        body = {"model": model, "messages": [{"role": "user", "content": content}], **more}
        return await self.client.post("/v1/chat/completions", json=body, headers=headers)

    async def connect(self, receive_buffer: int | None = None) -> RawConnection:
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        connection = RawConnection(*await asyncio.open_connection(sock=sock))
        self._connections.append(connection)
        return connection


@pytest.fixture
async def start_router() -> AsyncIterator[Any]:
    """``await start_router(services, nodes=..., policy=..., capacity=...)`` gives a RunningRouter."""
    async with AsyncExitStack() as stack:

        async def start(
            services: Mapping[str, Sequence[str]] | None,
            nodes: Mapping[str, Any] = CHAT_GRAPH,
            policy: Policy | None = None,
            capacity: int | None = None,
        ) -> RunningRouter:
            running = RunningRouter(nodes, services, policy or Policy(), capacity)
            await running.start()
            stack.push_async_callback(running.stop)
            return running

        yield start


@pytest.fixture
def small() -> Iterator[FakeUpstream]:
    with FakeUpstream(models=["small"]) as upstream:
        yield upstream


@pytest.fixture
def large() -> Iterator[FakeUpstream]:
    with FakeUpstream(models=["large"]) as upstream:
        yield upstream


@pytest.fixture
async def router(start_router: Any, small: FakeUpstream, large: FakeUpstream) -> RunningRouter:
    """The chat graph with one endpoint a tier."""
    running: RunningRouter = await start_router(
        {"small-predictor": [small.url], "large-predictor": [large.url]}
    )
    return running


class RawUpstream:
    """An upstream that answers every request with the bytes of a script, as the test's handler says.

    handler: gets the request's bytes and the writer; the connection stays open until it closes the writer.
    """

    def __init__(self, handler: Any) -> None:
        self.connections = 0
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
                await self._handler(head + await reader.readexactly(length), writer)
        writer.close()


@pytest.fixture
async def raw_upstream() -> AsyncIterator[Any]:
    """``await raw_upstream(handler)`` gives a RawUpstream."""
    async with AsyncExitStack() as stack:

        async def start(handler: Any) -> RawUpstream:
            upstream = RawUpstream(handler)
            await upstream.start()
            stack.push_async_callback(upstream.stop)
            return upstream

        yield start
