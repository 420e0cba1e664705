"""``baseload snapshot``: weights in object storage."""

import json
from pathlib import Path
from typing import Annotated

import typer

from baseload_cli.progress import Callback, byte_progress
from baseload_cli.store import STATE_HELP, settings_for
from baseload_local.state import DEFAULT_STATE
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.restore import restore
from baseload_storage.snapshots import PushResult, SnapshotStore

app = typer.Typer(help="Push, pull and list model snapshots in object storage.", no_args_is_help=True)

Ref = Annotated[str, typer.Argument(help="s3://bucket[/prefix]/name[:tag]")]
Bucket = Annotated[str, typer.Argument(help="s3://bucket[/prefix]")]
State = Annotated[Path, typer.Option(help=STATE_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def push(
    source: Annotated[str, typer.Argument(help="A folder, or hf://org/name[@revision].")],
    ref: Ref,
    allow_pickle: Annotated[
        bool, typer.Option(help="Take .bin, .pt and other pickle files, which can run code when loaded.")
    ] = False,
    state: State = DEFAULT_STATE,
) -> None:
    """Push a model and tag it. Only what the store lacks is uploaded."""
    target = SnapshotRef.parse(ref)
    store = SnapshotStore.open(str(target.bucket), settings_for(state))
    with byte_progress(f"push {source}") as progress:
        result = _send(store, source, target, allow_pickle=allow_pickle, progress=progress)
    told = "already there" if result.already_there else f"{result.bytes_uploaded / 1e6:.1f} MB uploaded"
    typer.echo(f"{target}: {result.digest} ({result.files} files, {result.bytes_total / 1e6:.1f} MB, {told})")


@app.command()
def pull(
    ref: Ref,
    folder: Annotated[Path, typer.Argument(help="Where the model goes; appears only when whole.")],
    state: State = DEFAULT_STATE,
) -> None:
    """Restore a snapshot, every byte verified."""
    with byte_progress(f"pull {ref}") as progress:
        result = restore(ref, folder, settings_for(state), progress=progress)
    told = (
        "already there"
        if result.already_there
        else f"{result.bytes_read / 1e6:.1f} MB in {result.seconds:.1f} s"
    )
    typer.echo(f"{folder}: {result.digest} ({told})")


@app.command("ls")
def list_(bucket: Bucket, state: State = DEFAULT_STATE, as_json: AsJson = False) -> None:
    """List the snapshots of a bucket and their tags."""
    snapshots = SnapshotStore.open(bucket, settings_for(state)).snapshots()
    if as_json:
        typer.echo(json.dumps([each.as_dict() for each in snapshots], indent=1))
    for each in snapshots if not as_json else ():
        typer.echo(f"{each.name}:{each.tag}  {each.digest}  {each.bytes_total / 1e6:.1f} MB")


@app.command()
def show(ref: Ref, state: State = DEFAULT_STATE) -> None:
    """Print a snapshot's manifest as JSON."""
    target = SnapshotRef.parse(ref)
    typer.echo(SnapshotStore.open(str(target.bucket), settings_for(state)).show(target).encode().decode())


def _send(
    store: SnapshotStore, source: str, target: SnapshotRef, *, allow_pickle: bool, progress: Callback
) -> PushResult:
    tag = target.tag
    if source.startswith("hf://"):
        return store.push_hub(source, target.name, tag, allow_pickle=allow_pickle, progress=progress)
    return store.push_folder(Path(source), target.name, tag, allow_pickle=allow_pickle, progress=progress)
