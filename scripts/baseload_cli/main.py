"""Entry point: commands, and one handler for every expected error."""

import sys

import typer
from openai import OpenAIError

from baseload_cli import ask, snapshot, up
from baseload_cli.console import complain
from baseload_local.errors import LocalError
from baseload_manifests.errors import ManifestError
from baseload_storage.errors import StorageError

app = typer.Typer(
    help="Baseload: LLM serving on KServe that never goes cold.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("down")(up.down)
app.command("status")(up.status)
app.command("ask")(ask.ask)
app.add_typer(snapshot.app, name="snapshot")


def main() -> None:
    try:
        app()
    except (LocalError, ManifestError, StorageError, OpenAIError) as error:
        complain(error)
        sys.exit(1)
