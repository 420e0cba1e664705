"""Sees to it that every snapshot a manifest names is in the store before a predictor asks for it."""

import asyncio
import sys
from collections.abc import Iterable

from baseload_local import sample_model
from baseload_local.commands import own_env
from baseload_local.errors import MissingSnapshotError, ProcessFailedError
from baseload_local.process import Child, Command
from baseload_local.report import Report
from baseload_local.state import StateFolder
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.settings import S3Settings
from baseload_storage.snapshots import SnapshotStore


async def ensure_snapshots(
    refs: Iterable[str], settings: S3Settings, state: StateFolder, report: Report
) -> None:
    """Make the sample snapshot if it is named and missing. Raises MissingSnapshotError for any other."""
    for ref in sorted(set(refs)):
        await _ensure(SnapshotRef.parse(ref), settings, state, report)


async def _ensure(ref: SnapshotRef, settings: S3Settings, state: StateFolder, report: Report) -> None:
    store = await asyncio.to_thread(SnapshotStore.open, str(ref.bucket), settings)
    await asyncio.to_thread(store.ensure_bucket)
    if await asyncio.to_thread(store.exists, ref):
        report.note(f"snapshot {ref} is there")
    elif ref.name != sample_model.NAME:
        raise MissingSnapshotError(
            f"the object store has no snapshot {ref}; push it with: baseload snapshot push FOLDER {ref}"
        )
    else:
        await _push_sample(store, ref, state, report)


async def _push_sample(store: SnapshotStore, ref: SnapshotRef, state: StateFolder, report: Report) -> None:
    with report.step("convert the sample model to safetensors"):
        await _convert(state)
    with report.step(f"push it as snapshot {ref}"):
        result = await asyncio.to_thread(
            store.push_folder, state.sample_model, ref.name, ref.tag, origin=sample_model.ORIGIN
        )
    report.note(f"{result.files} files, {result.bytes_uploaded / 1e6:.0f} MB uploaded, {result.digest}")


async def _convert(state: StateFolder) -> None:
    if state.sample_model.is_dir():
        return
    arguments = (sys.executable, "-m", "baseload_local.sample_model", str(state.sample_model))
    child = await Child.start(Command("sample-model", arguments, own_env(), state.log("sample-model")))
    try:
        status = await child.wait()
    finally:
        await child.stop(grace=0)
    if status != 0:
        raise ProcessFailedError(f"the conversion of the sample model failed: {child.last_words()}")
