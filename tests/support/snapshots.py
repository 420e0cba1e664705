"""Models to push, and a place in a real store to push them to."""

from pathlib import Path

import numpy
from safetensors.numpy import save_file

from baseload_storage.core.ref import BucketUrl
from baseload_storage.s3 import Bucket
from baseload_storage.snapshots import SnapshotStore
from support.seaweed import StoreAddress

TENSORS = 8
SMALL = 64 * 1024
LARGE = 3 * 1024 * 1024
"""Bytes of a tensor. Five large ones fill a chunk; the small ones all share one."""


class Place:
    """A prefix of the real store that holds nothing but what the test puts there.

    Clients are made once: making one takes boto3 longer than most requests.
    """

    def __init__(self, address: StoreAddress) -> None:
        self.address = address
        self.url = address.new_url()
        self.settings = address.settings()
        self.store = SnapshotStore.open(self.url, self.settings)
        self._bucket = Bucket(BucketUrl.parse(self.url), self.settings)

    def held(self, kind: str = "") -> list[str]:
        """Keys below the prefix, such as ``packs/...``."""
        return sorted(self._bucket.keys(kind))

    def read(self, key: str) -> bytes:
        reply = self.address.client.get_object(Bucket=self.address.bucket, Key=self._key(key))
        return reply["Body"].read()

    def write(self, key: str, data: bytes) -> None:
        self.address.client.put_object(Bucket=self.address.bucket, Key=self._key(key), Body=data)

    def delete(self, key: str) -> None:
        self.address.client.delete_object(Bucket=self.address.bucket, Key=self._key(key))

    def _key(self, key: str) -> str:
        return f"{self._bucket.url.prefix}/{key}"


def write_weights(
    path: Path, size: int = SMALL, *, changed: int | None = None, metadata: dict[str, str] | None = None
) -> None:
    """Tensors of ``size`` pseudo-random bytes; that of number ``changed`` differs from the usual ones."""
    tensors = {}
    for number in range(TENSORS):
        source = numpy.random.default_rng(number + (1000 if number == changed else 0))
        tensors[f"layer.{number}"] = source.integers(0, 2**16, size // 2, dtype=numpy.uint16)
    save_file(tensors, path, metadata=metadata)
    path.chmod(0o644)  # safetensors makes it private, which a snapshot does not keep


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Permission bits and bytes of every file below ``folder``, by relative path."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }
