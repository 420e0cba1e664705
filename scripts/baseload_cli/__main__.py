"""``python -m baseload_cli``."""

from baseload_cli.entry import main

main()
