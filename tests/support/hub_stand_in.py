"""The part of the Hugging Face hub's HTTP API that a download uses, for repositories in memory."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

from support.loopback import served


@dataclass
class Repository:
    """Its files at one commit, which ``revisions`` name too. gated: files only for who has accepted terms."""

    commit: str
    files: dict[str, bytes]
    revisions: tuple[str, ...] = ("main",)
    gated: bool = False


@dataclass
class HubStandIn:
    port: int = 0
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def run_hub() -> Iterator[HubStandIn]:
    """Serve until the block ends."""
    state = HubStandIn()

    class Handler(_Handler):
        hub = state

    with served(Handler) as state.port:
        yield state


class _Handler(BaseHTTPRequestHandler):
    hub: HubStandIn

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Tests read ``requests`` instead."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        parts = parts[2:] if is_api else parts
        repository = self.hub.repositories.get("/".join(parts[:2]))
        if repository is None:
            self._refuse(404, "RepoNotFound", "Repository not found")
        elif len(parts) > 3 and parts[3] not in (*repository.revisions, repository.commit):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {parts[3]}")
        elif is_api:
            self._describe("/".join(parts[:2]), repository, parts[2:3] == ["tree"])
        elif repository.gated:
            self._refuse(403, "GatedRepo", "Access to this model is restricted")
        else:
            self._give(repository, "/".join(parts[4:]))

    def _describe(self, name: str, repository: Repository, as_tree: bool) -> None:
        tree = [
            {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for path, data in repository.files.items()
        ]
        siblings = [{"rfilename": path} for path in repository.files]
        info = {"id": name, "modelId": name, "sha": repository.commit, "siblings": siblings}
        self._reply(200, json.dumps(tree if as_tree else info).encode(), {"Content-Type": "application/json"})

    def _give(self, repository: Repository, path: str) -> None:
        data = repository.files[path]
        tag = f'"{hashlib.sha1(data).hexdigest()}"'
        self._reply(200, data, {"X-Repo-Commit": repository.commit, "ETag": tag})

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._reply(status, b"", {"X-Error-Code": code, "X-Error-Message": message})

    def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
