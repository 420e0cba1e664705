"""The server's side of HTTP/1.1 on one connection: just enough for a fake upstream."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from http.client import responses
from typing import Any

MAX_BODY_BYTES = 64 * 1024 * 1024


class ClientLeftError(Exception):
    """The client closed the connection, or the server is stopping."""


class UnreadableRequestError(Exception):
    """The request is no HTTP that this server reads; the message goes to the client with a 400."""


class Connection(asyncio.StreamReaderProtocol):
    """Reads requests and writes replies; ``gone`` is set the moment the client leaves."""

    def __init__(self, serve: Callable[["Connection"], Coroutine[Any, Any, None]]) -> None:
        self.reader = asyncio.StreamReader()
        self.gone = asyncio.Event()
        super().__init__(self.reader, lambda _reader, writer: self._run(serve, writer))

    async def _run(
        self, serve: Callable[["Connection"], Coroutine[Any, Any, None]], writer: asyncio.StreamWriter
    ) -> None:
        self.writer = writer
        try:
            await serve(self)
        except ClientLeftError:
            pass
        except UnreadableRequestError as error:
            self.send_whole(400, {"connection": "close"}, f"fake upstream: {error}")
        finally:
            writer.close()

    def eof_received(self) -> bool:
        super().eof_received()
        self.gone.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()

    async def read_request(self) -> tuple[str, str, dict[str, str], bytes]:
        """Method, path with query, headers by lower-case name, body. Raises ClientLeftError at the end."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            line, *fields = head.rstrip().split("\r\n")
            method, path, _version = line.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
            return method, path, headers, await self._read_body(headers)
        except (asyncio.IncompleteReadError, ConnectionError) as left:
            raise ClientLeftError from left
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise UnreadableRequestError(str(error)) from error

    async def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self.reader.readexactly(_checked(int(headers.get("content-length", "0"))))
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(_checked(size + len(body)) - len(body))
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [
            f"HTTP/1.1 {status} {responses.get(status, 'Scripted')}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def send_whole(self, status: int, headers: Mapping[str, str], body: Any) -> None:
        """A reply with a body of known length: bytes and text as they are, anything else as JSON."""
        raw, media_type = _encoded(body)
        self.send_head(status, {"content-type": media_type, "content-length": str(len(raw)), **headers})
        self.send(raw)

    def start_stream(self, headers: Mapping[str, str]) -> None:
        self.send_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", **headers})

    def send_event(self, payload: str) -> None:
        raw = f"data: {payload}\n\n".encode()
        self.send(b"%x\r\n%b\r\n" % (len(raw), raw))

    def end_stream(self) -> None:
        self.send(b"0\r\n\r\n")

    def send(self, data: bytes) -> None:
        if self.gone.is_set():
            raise ClientLeftError
        self.writer.write(data)

    async def until_gone(self) -> None:
        """Waits until the client leaves, then raises ClientLeftError."""
        await self.gone.wait()
        raise ClientLeftError

    async def while_here(self, waited: Coroutine[Any, Any, None]) -> None:
        """Awaits ``waited``, or raises ClientLeftError as soon as the client leaves."""
        tasks = [asyncio.ensure_future(waited), asyncio.ensure_future(self.gone.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        if self.gone.is_set():
            raise ClientLeftError


def _checked(size: int) -> int:
    if size > MAX_BODY_BYTES:
        raise ValueError(f"a body of {size} bytes is over the limit of {MAX_BODY_BYTES}")
    return size


def _encoded(body: Any) -> tuple[bytes, str]:
    if isinstance(body, bytes):
        return body, "application/octet-stream"
    if isinstance(body, str):
        return body.encode(), "text/plain; charset=utf-8"
    return json.dumps(body).encode(), "application/json"
