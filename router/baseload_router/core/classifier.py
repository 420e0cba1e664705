"""Which tier a prompt needs, as ``@tier:`` conditions ask.

The rules are the simplest that help: a long prompt, or a word that stands for hard work, means large.
They run on every ``auto`` request, so they are substring tests on a bounded prompt, not regular
expressions: those cost more than the rest of the router together.

A word of ASCII letters counts where it starts a word: "code" is found in "codes" but not in "decode". Scripts
without spaces, such as Chinese, have no such boundary, so a word counts anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from baseload_router.core.facts import OpenAIRequest, prompt_of


@dataclass(frozen=True, slots=True)
class TierDecision:
    """A tier's name (``small`` or ``large``) and why."""

    tier: str
    reason: str


class Classifier(Protocol):
    """Anything that finds the tier of a request."""

    def classify(self, request: OpenAIRequest) -> TierDecision:
        """The tier that the request needs."""
        ...


class RuleClassifier:
    """Large from ``min_large_chars`` characters on, or with one of ``keywords``; small otherwise."""

    def __init__(self, min_large_chars: int, keywords: Sequence[str]) -> None:
        self._min_large_chars = min_large_chars
        self._keywords = tuple(keyword.lower() for keyword in keywords)

    def classify(self, request: OpenAIRequest) -> TierDecision:
        prompt = prompt_of(request)
        if len(prompt) >= self._min_large_chars:
            return TierDecision("large", f"{len(prompt)} characters, {self._min_large_chars} or more")
        lowered = prompt.lower()
        for keyword in self._keywords:
            if _has(lowered, keyword):
                return TierDecision("large", f"it has the word {keyword!r}")
        return TierDecision("small", f"{len(prompt)} characters and no keyword")


def _has(text: str, keyword: str) -> bool:
    at = text.find(keyword)
    if not keyword.isascii():
        return at >= 0
    while at > 0 and text[at - 1].isascii() and text[at - 1].isalnum():
        at = text.find(keyword, at + 1)
    return at >= 0
