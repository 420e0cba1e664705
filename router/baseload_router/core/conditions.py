"""The conditions of Switch steps, ready to be asked.

A condition is a gjson path and matches when something exists at it in the body: null and false exist.
One that starts with ``@tier:`` asks the classifier instead. gjson knows no such modifier, so on KServe's
own router such a step never matches, and a graph behaves sanely there when its last step is ``@this``.
"""

from dataclasses import dataclass
from typing import Protocol

import pygjson

from baseload_manifests.core.graph_conditions import tier_of
from baseload_router.core.classifier import Classifier, TierDecision
from baseload_router.core.facts import Facts


class Inquiry:
    """One request as conditions see it. The classifier runs once at most, and only when it is asked."""

    __slots__ = ("_classifier", "decision", "facts")

    def __init__(self, facts: Facts | None, classifier: Classifier) -> None:
        self.facts = facts
        self.decision: TierDecision | None = None
        self._classifier = classifier

    def tier(self, facts: Facts) -> str:
        if self.decision is None:
            self.decision = self._classifier.classify(facts.request)
        return self.decision.tier


class Condition(Protocol):
    """A test of a request whose body is JSON."""

    def matches(self, facts: Facts, inquiry: Inquiry) -> bool:
        """Whether the step is to be taken."""
        ...


@dataclass(frozen=True, slots=True)
class GjsonCondition:
    """Something exists at the path."""

    path: pygjson.Path

    def matches(self, facts: Facts, inquiry: Inquiry) -> bool:
        return bool(pygjson.get(facts.text, self.path).exists())


@dataclass(frozen=True, slots=True)
class TierCondition:
    """The classifier finds this tier."""

    tier: str

    def matches(self, facts: Facts, inquiry: Inquiry) -> bool:
        return inquiry.tier(facts) == self.tier


def compile_condition(text: str) -> Condition:
    """A condition as a graph writes it. It is taken to have passed the graph rules."""
    tier = tier_of(text)
    return GjsonCondition(pygjson.compile(text)) if tier is None else TierCondition(tier)
