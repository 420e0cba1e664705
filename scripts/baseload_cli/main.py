"""Entry point: commands, and one handler for every expected error."""

import sys

import typer
from openai import OpenAIError
from pydantic import ValidationError

from baseload_cli import ask, snapshot, up
from baseload_cli.console import complain
from baseload_client import BaseloadClientError
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
    except (BaseloadClientError, LocalError, ManifestError, StorageError, OpenAIError) as error:
        _fail(str(error))
    except ValidationError as error:
        _fail("\n".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()))


def _fail(message: str) -> None:
    complain(message)
    sys.exit(1)
