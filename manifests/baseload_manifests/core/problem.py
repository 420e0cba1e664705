"""What is wrong with a manifest, said so that its author can mend it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in one manifest.

    file: the file as the user named it, with the document's line after a colon where known.
    field: dotted path inside the document, e.g. ``spec.nodes.root.steps[0].weight``.
    reason: what is wrong.
    fix: what to write instead.
    """

    file: str
    field: str
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field}: {self.reason}. Fix: {self.fix}"
