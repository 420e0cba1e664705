"""``python -m baseload_cli``."""

from baseload_cli.main import main

main()
