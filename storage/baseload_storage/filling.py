"""The bytes of a snapshot, from ranged reads into files of the right size, every chunk and file verified."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from blake3 import blake3
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from baseload_storage.content import pack_key
from baseload_storage.core.manifest import File, Manifest, digest_of
from baseload_storage.core.plan import Piece, RangeRead, plan_reads
from baseload_storage.errors import (
    ObjectMissingError,
    ObjectShortError,
    SnapshotCorruptError,
    SnapshotIncompleteError,
    StoreUnreachableError,
)
from baseload_storage.s3 import Bucket
from baseload_storage.uploading import Progress

WORKERS = 4
"""Each holds one chunk, at most 16 MiB."""
ATTEMPTS = 4
BLOCK = 1024 * 1024


def fill(folder: Path, manifest: Manifest, bucket: Bucket, progress: Progress) -> int:
    """Make ``folder`` hold the files of ``manifest``, on disk. Returns the bytes that were asked for.

    Raises SnapshotCorruptError, SnapshotIncompleteError, StoreUnreachableError or OSError; then the folder
    is not whole.
    """
    reads = plan_reads(manifest.files)
    files = Files(folder, manifest)
    fetcher = _Fetcher(bucket, files, manifest.size, progress)
    with ThreadPoolExecutor(WORKERS, "baseload-restore") as pool:
        _all([pool.submit(fetcher.fetch, each) for each in reads], fetcher.stop)
        _all([pool.submit(files.finish, number) for number in range(len(manifest.files))], fetcher.stop)
    files.sync_folders()
    return sum(each.length for each in reads)


def _all(futures: list[Future[None]], stop: Callable[[], None]) -> None:
    """Wait for all; at the first failure, or Ctrl-C, what still waits is dropped and ``stop`` called."""
    try:
        done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        for each in done:
            each.result()
    except BaseException:
        for each in futures:
            each.cancel()
        stop()
        raise


class Files:
    """The files of a manifest, made at their full size, written at any place by any thread."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        folder.mkdir()
        self._folder = folder
        self._files = manifest.files
        for file in manifest.files:
            self._make(file)

    def _make(self, file: File) -> None:
        path = self._folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode)
        try:
            os.fchmod(descriptor, file.mode)
            if file.size:
                os.posix_fallocate(descriptor, 0, file.size)
        finally:
            os.close(descriptor)

    def write(self, number: int, offset: int, data: memoryview) -> None:
        with (self._folder / self._files[number].path).open("r+b", buffering=0) as file:
            while data:
                written = os.pwrite(file.fileno(), data, offset)
                data, offset = data[written:], offset + written

    def finish(self, number: int) -> None:
        """Verify a file against its own digest and put it on disk. Raises SnapshotCorruptError.

        A file of one chunk has that chunk's digest, which has been checked on arrival.
        """
        file = self._files[number]
        path = self._folder / file.path
        if len(file.chunks) > 1 and (actual := _digest_of_file(path)) != file.digest:
            raise SnapshotCorruptError(
                f"{file.path} has digest {actual} instead of {file.digest}, though its chunks are right: "
                "the manifest contradicts itself, or the disk changes what is written"
            )
        sync(path)

    def sync_folders(self) -> None:
        parents = {parent for file in self._files for parent in (self._folder / file.path).parents}
        for folder in parents:
            if folder.is_relative_to(self._folder):
                sync(folder)


class _Fetcher:
    """Reads ranges, checks chunks, writes them. Used by several threads."""

    def __init__(self, bucket: Bucket, files: Files, total: int, progress: Progress) -> None:
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
        if self._stopped.is_set():
            return
        begin = pieces[0].chunk.offset
        length = pieces[-1].chunk.offset + pieces[-1].chunk.length - begin
        try:
            with self._bucket.reading(pack_key(pack), begin, length) as read:
                while pieces and not self._stopped.is_set():
                    self._take(pieces[0], read)
                    del pieces[0]
        except ObjectMissingError as error:
            raise SnapshotIncompleteError(
                f"the snapshot is incomplete: {error}; push the model again"
            ) from error
        except ObjectShortError as error:
            raise SnapshotCorruptError(f"the snapshot is corrupt: {error}; push the model again") from error

    def _take(self, piece: Piece, read: Callable[[memoryview], int]) -> None:
        chunk = piece.chunk
        data = memoryview(bytearray(chunk.length))
        came = read(data)
        actual = digest_of(data[:came])
        if actual != chunk.digest:
            pack = self._bucket.where(pack_key(chunk.pack))
            raise SnapshotCorruptError(
                f"{pack}: the {chunk.length} bytes at {chunk.offset} have digest {actual} "
                f"({came} bytes came) instead of {chunk.digest}"
            )
        for place in piece.places:
            self._files.write(place.file, place.offset, data)
        with self._lock:
            self._done += len(data) * len(piece.places)
            self._progress(self._done, self._total)


def _digest_of_file(path: Path) -> str:
    whole = blake3()
    buffer = memoryview(bytearray(BLOCK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            whole.update(buffer[:size])
    return f"blake3:{whole.hexdigest()}"


def sync(path: Path) -> None:
    """fsync of a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
