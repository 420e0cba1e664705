"""A snapshot as a folder: every byte verified, visible only when whole.

The files are filled in a folder beside the target. When all are there and on disk the folder is marked
READY with its digest and renamed. Whatever ends a restore early, nothing of it stays and an older folder
does; what a killed one left is put in order by the next.
"""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from baseload_storage.core.manifest import READY, Manifest
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.errors import TargetUnusableError
from baseload_storage.filling import fill, sync
from baseload_storage.s3 import Bucket
from baseload_storage.settings import S3Settings
from baseload_storage.snapshots import SnapshotStore, no_progress
from baseload_storage.uploading import Progress


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """bytes_read: from the store, 0 if the folder was already this snapshot. seconds: of the whole call."""

    digest: str
    path: Path
    bytes_read: int
    seconds: float
    already_there: bool


def restore(
    ref: str, target: Path, settings: S3Settings | None = None, *, progress: Progress = no_progress
) -> RestoreResult:
    """Make the folder ``target`` the snapshot ``ref``; an older snapshot there is replaced.

    A folder that already is this snapshot costs no more than a look at the tag, and with a digest in
    ``ref`` not even that. Several processes may call this for one target at once. progress: called with
    (bytes verified, bytes of all files) by worker threads, never by two at once. Raises StorageError.
    """
    begin = time.monotonic()
    parsed = SnapshotRef.parse(ref)
    path = Path(os.path.realpath(target))  # renames would replace a link, and ".." has no name
    if parsed.digest is not None and _ready_digest(path) == parsed.digest:
        return RestoreResult(parsed.digest, target, 0, time.monotonic() - begin, already_there=True)
    bucket = Bucket(parsed.bucket, settings or S3Settings())
    pinned = parsed.at(SnapshotStore(bucket).resolve(parsed))
    read = None if _ready_digest(path) == pinned.digest else _restore(pinned, path, bucket, progress)
    seconds = time.monotonic() - begin
    return RestoreResult(str(pinned.digest), target, read or 0, seconds, already_there=read is None)


def _restore(ref: SnapshotRef, target: Path, bucket: Bucket, progress: Progress) -> int | None:
    """Bytes read; None if another process has done it meanwhile."""
    with _usable(target), _locked(target):
        _settle(target)  # a restore that was killed: the lock says that none runs
        if _ready_digest(target) == ref.digest:
            return None
        manifest = SnapshotStore(bucket).show(ref)
        return _replace(target, manifest, str(ref.digest), bucket, progress)


def _ready_digest(target: Path) -> str | None:
    try:
        return (target / READY).read_text(encoding="ascii", errors="replace")
    except OSError:
        return None


@contextmanager
def _usable(target: Path) -> Iterator[None]:
    """Raises TargetUnusableError for what the file system refuses inside."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        hint = "free some space" if full else "choose one that can be written"
        raise TargetUnusableError(
            f"{target} cannot be restored: {error.strerror or error}; {hint}"
        ) from error


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    with _beside(target, "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{kind}")


def _replace(target: Path, manifest: Manifest, digest: str, bucket: Bucket, progress: Progress) -> int:
    if target.exists() and not (target / READY).is_file() and any(target.iterdir()):
        raise TargetUnusableError(
            f"{target} holds files that no restore has put there; choose another folder"
        )
    part = _beside(target, "part")
    try:
        read = fill(part, manifest, bucket, progress)
        (part / READY).write_text(digest, encoding="ascii")
        sync(part / READY)
        sync(part)
        _publish(part, target)
    finally:
        _settle(target)
    return read


def _publish(part: Path, target: Path) -> None:
    """Renames only, so that the target is missing for no longer than one of them takes."""
    if target.exists():
        target.rename(_beside(target, "old"))
    part.rename(target)
    sync(target.parent)


def _settle(target: Path) -> None:
    """Leave one whole folder and nothing beside it, wherever a restore has ended.

    What is called old is always whole, since it gets another name before it is removed. So it can take
    its place again if the new folder did not.
    """
    part, old = _beside(target, "part"), _beside(target, "old")
    _remove(part)
    if os.path.lexists(old):
        old.rename(part if target.exists() else target)
        _remove(part)


def _remove(folder: Path) -> None:
    if os.path.lexists(folder):
        shutil.rmtree(folder)
