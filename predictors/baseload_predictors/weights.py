"""Where the weights come from: a snapshot in object storage, or a folder that is already there."""

import logging
from pathlib import Path
from threading import Event

from baseload_predictors.errors import StartError
from baseload_predictors.settings import PredictorSettings
from baseload_predictors.timeline import Timeline
from baseload_storage.errors import StorageError
from baseload_storage.restore import restore

log = logging.getLogger(__name__)

DEFAULT_PARENT = Path("~/.cache/baseload/models")


class RestoreStoppedError(Exception):
    """The process is told to end; nothing of the restore stays."""


def model_folder(settings: PredictorSettings, timeline: Timeline, stopping: Event) -> Path:
    """The folder with the weights, restored first if a snapshot is named.

    Runs in a thread while the main thread imports vLLM; ``stopping`` ends it at the next chunk. Raises
    StartError or RestoreStoppedError.
    """
    if settings.snapshot is None:
        return _existing(Path(settings.model_dir or "."))
    target = settings.model_dir or DEFAULT_PARENT.expanduser() / settings.model_name
    with timeline.phase("restore"):
        try:
            result = restore(settings.snapshot, target, progress=lambda done, total: _go_on(stopping))
        except StorageError as error:
            raise StartError(f"cannot restore {settings.snapshot}: {error}") from error
    log.info("restored %s (%s), %d bytes read", settings.snapshot, result.digest, result.bytes_read)
    return target


def _go_on(stopping: Event) -> None:
    if stopping.is_set():
        raise RestoreStoppedError


def _existing(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise StartError(
            f"--model-dir {folder}: holds no model (no config.json); name another, or a --snapshot"
        )
    return folder
