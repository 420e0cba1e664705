"""What the commands print: steps with their times, notes, one line for an error."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console

STILL_EVERY_S = 10.0


class ConsoleReport:
    """Progress on a terminal or in a log. A step longer than ten seconds says that it still runs."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._begin = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        begin = time.monotonic()
        self._print("..", title)
        ended = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(title, begin, ended), daemon=True)
        ticker.start()
        try:
            yield
        except BaseException:
            self._print("xx", f"{title} ({time.monotonic() - begin:.1f} s)")
            raise
        finally:
            ended.set()
            ticker.join()
        self._print("ok", f"{title} ({time.monotonic() - begin:.1f} s)")

    def note(self, text: str) -> None:
        self._print("  ", text)

    def _tick(self, title: str, begin: float, ended: threading.Event) -> None:
        while not ended.wait(STILL_EVERY_S):
            self._print("..", f"{title}: {time.monotonic() - begin:.0f} s so far")

    def _print(self, mark: str, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone, and a cleanup must go on without it
            self._console.print(f"[{time.monotonic() - self._begin:6.1f} s] {mark} {text}", markup=False)


def complain(message: str) -> None:
    """What stopped a command, without a traceback."""
    for line in message.splitlines():
        sys.stderr.write(f"error: {line}\n")
