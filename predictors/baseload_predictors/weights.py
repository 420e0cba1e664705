"""Where the weights come from: a snapshot in object storage, or a folder that is already there."""

import logging
from pathlib import Path

from baseload_predictors.errors import StartError
from baseload_predictors.settings import PredictorSettings
from baseload_predictors.timeline import Timeline
from baseload_storage.errors import StorageError
from baseload_storage.restore import restore

log = logging.getLogger(__name__)

DEFAULT_PARENT = Path("~/.cache/baseload/models")


def model_folder(settings: PredictorSettings, timeline: Timeline) -> Path:
    """The folder with the weights, restored first if a snapshot is named. Raises StartError.

    Runs in a thread while the main thread imports vLLM.
    """
    if settings.snapshot is None:
        return _existing(Path(settings.model_dir or "."))
    target = settings.model_dir or DEFAULT_PARENT.expanduser() / settings.model_name
    with timeline.phase("restore"):
        try:
            result = restore(settings.snapshot, target)
        except StorageError as error:
            raise StartError(f"cannot restore {settings.snapshot}: {error}") from error
    log.info("restored %s (%s), %d bytes read", settings.snapshot, result.digest, result.bytes_read)
    return target


def _existing(folder: Path) -> Path:
    if not (folder / "config.json").is_file():
        raise StartError(
            f"--model-dir {folder}: holds no model (no config.json); name another, or a --snapshot"
        )
    return folder
