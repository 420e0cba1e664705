"""A bar for transfers on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

LINE_EVERY_S = 2.0
Callback = Callable[[int, int], None]


@contextmanager
def byte_progress(title: str) -> Iterator[Callback]:
    """A callback that takes (bytes done, bytes in all)."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(title, console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(title: str, console: Console) -> Callback:
    said = time.monotonic()

    def update(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_EVERY_S:
            said = time.monotonic()
            console.print(f"{title}: {done / 1e6:.0f} of {total / 1e6:.0f} MB", markup=False, highlight=False)

    return update
