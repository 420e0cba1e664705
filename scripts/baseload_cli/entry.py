"""What the installed command `baseload` calls: the base install is the client alone, and must say so."""

import sys


def main() -> None:
    try:
        from baseload_cli.main import main as run  # noqa: PLC0415 - may lack what the extras bring
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("baseload"):
            raise
        sys.exit(f"error: this command needs {error.name}; install it with: pip install 'baseload[local]'")
    run()
