"""Going on after a fault, so that an author sees all of them at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from baseload_manifests.core.problem import Problem
from baseload_manifests.errors import ManifestError


@contextmanager
def collecting(problems: list[Problem]) -> Iterator[None]:
    """Adds the problems of a ManifestError to ``problems`` and goes on after the block."""
    try:
        yield
    except ManifestError as error:
        problems.extend(error.problems)


def raise_any(problems: list[Problem]) -> None:
    """Raises ManifestError if there are problems."""
    if problems:
        raise ManifestError(problems)
