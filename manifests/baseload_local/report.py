"""What the runtime tells while it works; the command line decides how it looks."""

from contextlib import AbstractContextManager
from typing import Protocol


class Report(Protocol):
    """Receives progress."""

    def step(self, title: str) -> AbstractContextManager[None]:
        """A step that takes time: shown while it runs, with its time when it ends."""
        ...

    def note(self, text: str) -> None:
        """Something worth knowing, in one line."""
        ...
