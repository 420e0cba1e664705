"""A store in memory that misbehaves on demand, for faults that a good store does not have."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from pydantic import SecretStr

from baseload_storage.settings import S3Settings
from support.loopback import served

BUCKET = "bucket"


@dataclass
class StandIn:
    """What it holds, was asked, and does wrong.

    ignores: the conditions that do not count, of If-None-Match and If-Match. alters: whether uploads lose
    their last byte. cut_gets: how many of the next GETs of a path with ``cut_path`` in it break off half-way.
    failures: the next replies, as (status, code).
    """

    port: int = 0
    ignores: frozenset[str] = frozenset()
    alters: bool = False
    cut_gets: int = 0
    cut_path: str = "/packs/"
    failures: list[tuple[int, str]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def settings(self) -> S3Settings:
        return S3Settings(
            endpoint_url=f"http://127.0.0.1:{self.port}",
            region="us-east-1",
            access_key=SecretStr("key"),
            secret_key=SecretStr("secret"),
        )


@contextmanager
def run_stand_in() -> Iterator[StandIn]:
    """Serve until the block ends."""
    state = StandIn()

    class Handler(_Handler):
        store = state

    # boto3 keeps its connections open for as long as it likes.
    with served(Handler, wait_for_connections=False) as state.port:
        yield state


def etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: StandIn

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Tests read ``requests`` instead."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if self._fails():
            return
        key = self._key()
        old = self.store.objects.get(key)
        if self._loses(old):
            self._refuse(412, "PreconditionFailed")
            return
        self.store.objects[key] = data[:-1] if self.store.alters else data
        self._reply(200, b"", {"ETag": etag(data)})

    def do_HEAD(self) -> None:
        if not self._fails():
            self._give(self.store.objects.get(self._key()))

    def do_GET(self) -> None:
        if self._fails():
            return
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0])
        else:
            self._give(self.store.objects.get(self._key()))

    def do_DELETE(self) -> None:
        if not self._fails():
            self.store.objects.pop(self._key(), None)
            self._reply(204, b"", {})

    def _key(self) -> str:
        self.store.requests.append(f"{self.command} {self.path}")
        return unquote(urlsplit(self.path).path).removeprefix(f"/{BUCKET}/")

    def _fails(self) -> bool:
        if not self.store.failures:
            return False
        self._refuse(*self.store.failures.pop(0))
        return True

    def _loses(self, old: bytes | None) -> bool:
        wanted = self._condition("If-Match")
        if self._condition("If-None-Match") == "*":
            return old is not None
        return wanted is not None and (old is None or etag(old) != wanted)

    def _condition(self, header: str) -> str | None:
        return None if header in self.store.ignores else self.headers.get(header)

    def _list(self, prefix: str) -> None:
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size></Contents>"
            for key, data in sorted(self.store.objects.items())
            if key.startswith(prefix)
        )
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        self._reply(200, body.encode(), {})

    def _give(self, data: bytes | None) -> None:
        if data is None:
            self._refuse(404, "NoSuchKey")
            return
        version, status = etag(data), 200
        if span := self.headers.get("Range"):
            first, last = (int(part) for part in span.removeprefix("bytes=").split("-"))
            data, status = data[first : last + 1], 206
        self._reply(status, data, {"ETag": version})

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>told by the stand-in</Message></Error>"
        self._reply(status, body.encode(), {})

    def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.store.cut_gets and self.command == "GET" and self.store.cut_path in self.path:
            self.store.cut_gets -= 1
            body, self.close_connection = body[: len(body) // 2], True
        self.wfile.write(body)
