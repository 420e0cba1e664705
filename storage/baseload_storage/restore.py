"""A snapshot as a folder: every byte verified, visible only when whole.

Ranged GETs run in a few threads. Each chunk is checked against its digest as it arrives and written to its
place in a file of the right size, in a folder beside the target. When all are there the folder is synced,
marked READY with its digest, and renamed. Whatever ends a restore early, nothing of it stays.
"""

import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from baseload_storage.core.manifest import Manifest, digest_of
from baseload_storage.core.plan import Piece, RangeRead, plan_reads
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.errors import (
    ObjectMissingError,
    ReferenceInvalidError,
    SnapshotCorruptError,
    StorageError,
    StoreUnreachableError,
    TargetUnusableError,
)
from baseload_storage.s3 import Bucket
from baseload_storage.settings import S3Settings
from baseload_storage.snapshots import SnapshotStore, no_progress
from baseload_storage.uploading import Progress, pack_key

READY = ".baseload-ready"
"""Holds the digest of the snapshot that the folder is."""
WORKERS = 4
ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """bytes_read: from the store, 0 if the folder was already this snapshot. seconds: of the whole call."""

    digest: str
    path: Path
    bytes_read: int
    seconds: float
    already_there: bool


def parse_ref(text: str) -> SnapshotRef:
    """Raises ReferenceInvalidError."""
    try:
        return SnapshotRef.parse(text)
    except ValueError as error:
        raise ReferenceInvalidError(str(error)) from error


def restore(
    ref: str, target: Path, settings: S3Settings | None = None, *, progress: Progress = no_progress
) -> RestoreResult:
    """Make the folder ``target`` the snapshot ``ref``; an older snapshot there is replaced.

    A folder that already is this snapshot costs no more than a look at the tag, and with a digest in
    ``ref`` not even that. Several processes may call this for one target at once. Raises StorageError.
    """
    begin = time.monotonic()
    parsed = parse_ref(ref)
    bucket = Bucket(parsed.bucket, settings or S3Settings())
    store = SnapshotStore(bucket)
    digest = store.resolve(parsed)
    read = 0
    if _ready_digest(target) != digest:
        with _usable(target), _locked(target):
            if _ready_digest(target) != digest:
                manifest = store.show(SnapshotRef(parsed.bucket, parsed.name, digest=digest))
                read = _replace(target, manifest, digest, bucket, progress)
    return RestoreResult(digest, target, read, time.monotonic() - begin, already_there=read == 0)


def _ready_digest(target: Path) -> str | None:
    try:
        return (target / READY).read_text(encoding="ascii")
    except OSError:
        return None


@contextmanager
def _usable(target: Path) -> Iterator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        hint = "free some space" if error.errno == errno.ENOSPC else "choose one that can be written"
        raise TargetUnusableError(
            f"{target} cannot be restored: {error.strerror or error}; {hint}"
        ) from error


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    with (target.parent / f".{target.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _replace(target: Path, manifest: Manifest, digest: str, bucket: Bucket, progress: Progress) -> int:
    if target.exists() and not (target / READY).is_file() and any(target.iterdir()):
        raise TargetUnusableError(
            f"{target} holds files that no restore has put there; choose another folder"
        )
    for stale in target.parent.glob(f".{target.name}.*.part"):
        shutil.rmtree(stale)  # of a restore that was killed: the lock says that none runs
    part = target.parent / f".{target.name}.{uuid4().hex[:8]}.part"
    try:
        read = _fill(part, manifest, bucket, progress)
        (part / READY).write_text(digest, encoding="ascii")
        _sync(part / READY)
        _sync(part)
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
        _sync(target.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return read


def _fill(folder: Path, manifest: Manifest, bucket: Bucket, progress: Progress) -> int:
    reads = plan_reads(manifest.files)
    files = _Files(folder, manifest)
    fetcher = _Fetcher(bucket, files, manifest.size, progress)
    with ThreadPoolExecutor(WORKERS, "baseload-restore") as pool:
        futures = [pool.submit(fetcher.fetch, each) for each in reads]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            fetcher.stop()  # what still waits after a failure or Ctrl-C ends at once
    for each in done:
        each.result()
    files.sync()
    return sum(each.length for each in reads)


class _Files:
    """The files of a manifest, made at their full size, written at any place by any thread."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        folder.mkdir()
        self._paths = [folder / file.path for file in manifest.files]
        for path, file in zip(self._paths, manifest.files, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
            try:
                os.fchmod(descriptor, file.mode)
                if file.size:
                    os.posix_fallocate(descriptor, 0, file.size)
            finally:
                os.close(descriptor)

    def write(self, number: int, offset: int, data: bytes) -> None:
        with self._paths[number].open("r+b", buffering=0) as file:
            view = memoryview(data)
            while view:
                written = os.pwrite(file.fileno(), view, offset)
                view, offset = view[written:], offset + written

    def sync(self) -> None:
        for path in self._paths:
            _sync(path)
        for folder in {path.parent for path in self._paths}:
            _sync(folder)


class _Fetcher:
    """Reads ranges, checks chunks, writes them. Used by several threads."""

    def __init__(self, bucket: Bucket, files: _Files, total: int, progress: Progress) -> None:
        self._bucket = bucket
        self._files = files
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def fetch(self, each: RangeRead) -> None:
        """Raises SnapshotCorruptError or StoreUnreachableError once every attempt has failed."""
        self._attempt(each.pack, list(each.pieces))

    @retry(
        retry=retry_if_exception_type((StoreUnreachableError, SnapshotCorruptError)),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    def _attempt(self, pack: str, pieces: list[Piece]) -> None:
        """Fetch what is left of a range; ``pieces`` loses what has been written."""
        if self._stopped.is_set() or not pieces:
            return
        first, last = pieces[0].chunk, pieces[-1].chunk
        try:
            with self._bucket.reading(
                pack_key(pack), first.offset, last.offset + last.length - first.offset
            ) as read:
                while pieces and not self._stopped.is_set():
                    self._take(pieces[0], read)
                    del pieces[0]
        except ObjectMissingError as error:
            raise StorageError(f"the snapshot is incomplete: {error}") from error

    def _take(self, piece: Piece, read: Callable[[int], bytes]) -> None:
        chunk = piece.chunk
        data = read(chunk.length)
        actual = digest_of(data)
        if actual != chunk.digest:
            raise SnapshotCorruptError(
                f"{self._bucket.url}/{pack_key(chunk.pack)}: the {chunk.length} bytes at {chunk.offset} have "
                f"digest {actual} ({len(data)} bytes came) instead of {chunk.digest}"
            )
        for place in piece.places:
            self._files.write(place.file, place.offset, data)
        with self._lock:
            self._done += len(data) * len(piece.places)
            self._progress(self._done, self._total)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
