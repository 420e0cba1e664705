"""Endpoints and their kept-alive connections."""

import asyncio
import ssl
from urllib.parse import urlsplit

from baseload_router.upstream import UpstreamConnection

MAX_IDLE = 256
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Endpoint:
    """One place where a service answers, as ``http://HOST:PORT``, and its connections.

    in_flight: requests that it serves now. cooling_until: monotonic time until which it is avoided.
    """

    __slots__ = (
        "_host",
        "_idle",
        "_port",
        "_retired",
        "_ssl",
        "capacity",
        "cooling_until",
        "in_flight",
        "name",
    )

    def __init__(self, url: str, capacity: int) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._ssl = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: list[UpstreamConnection] = []
        self._retired = False
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.name = f"{shown}:{self._port}"
        self.capacity = capacity
        self.in_flight = 0
        self.cooling_until = 0.0

    async def connect(self) -> UpstreamConnection:
        """A new connection. Raises OSError."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: UpstreamConnection(self._keep, self._forget), self._host, self._port, ssl=self._ssl
        )
        return connection

    def take_idle(self) -> UpstreamConnection | None:
        """The connection used last, which is the least likely to be stale; None when there is none."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.transport.is_closing():
                return connection
        return None

    def retire(self) -> None:
        """The endpoint is gone from its service: what runs there may finish, nothing is kept."""
        self._retired = True
        for connection in self._idle:
            connection.transport.close()
        self._idle.clear()

    def _keep(self, connection: UpstreamConnection) -> None:
        if self._retired or len(self._idle) >= MAX_IDLE:
            connection.transport.close()
        else:
            self._idle.append(connection)

    def _forget(self, connection: UpstreamConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)
