"""Errors of this package: every one names file, field and fix."""

from collections.abc import Sequence

from baseload_manifests.core.problem import Problem


class ManifestError(Exception):
    """One or more manifests cannot be used; ``problems`` lists every fault found, not only the first."""

    status = 400
    retryable = False

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))
