"""The state folder: everything a running stack keeps on disk, and the lock that makes it one stack.

credentials.json   keys of the embedded object store (mode 0600)
endpoints.json     ready replicas, watched by the router
graph.json         the rendered InferenceGraph that the router was given
stack.json         what runs: processes and addresses, for status and down
logs/ models/ store/ cache/
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baseload_local.errors import AlreadyRunningError, LocalError

DEFAULT_STATE = Path(".baseload")


@dataclass(frozen=True, slots=True)
class Credentials:
    """S3 keys of the embedded object store."""

    access_key: str
    secret_key: str


@dataclass(frozen=True, slots=True)
class StateFolder:
    """Paths below ``root``, which is absolute."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> "StateFolder":
        return cls(path.resolve())

    @property
    def endpoints(self) -> Path:
        return self.root / "endpoints.json"

    @property
    def graph(self) -> Path:
        return self.root / "graph.json"

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def sample_model(self) -> Path:
        return self.root / "sample-model"

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def model(self, replica: str) -> Path:
        return self.root / "models" / replica

    def create(self) -> None:
        for folder in (self.root / "logs", self.root / "models", self.store, self.cache):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LocalError(
                    f"cannot create the state folder {folder}: {error}; choose another with --state"
                ) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one stack. Raises AlreadyRunningError."""
        with (self.root / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise AlreadyRunningError(self.root) from error
            yield

    def credentials(self) -> Credentials:
        """The store's keys, generated on the first call."""
        path = self.root / "credentials.json"
        if not path.exists():
            write_json(
                path, {"access_key": secrets.token_hex(10), "secret_key": secrets.token_hex(20)}, mode=0o600
            )
        return Credentials(**json.loads(path.read_text(encoding="utf-8")))

    def read_stack(self) -> dict[str, Any] | None:
        """What the running stack wrote about itself; None when none ran or it stopped cleanly."""
        try:
            stack: dict[str, Any] = json.loads(self._stack.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return stack

    def write_stack(self, stack: dict[str, Any]) -> None:
        write_json(self._stack, stack)

    def forget_stack(self) -> None:
        self._stack.unlink(missing_ok=True)

    @property
    def _stack(self) -> Path:
        return self.root / "stack.json"


def write_json(path: Path, content: object, mode: int = 0o644) -> None:
    """Replace ``path`` in one step: a reader sees the old content or the new."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
    part.replace(path)
