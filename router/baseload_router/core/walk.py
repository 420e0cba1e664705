"""From a request to one service: the walk through Switch and Splitter nodes.

The graph is compiled once into nodes that each choose one of their steps. The walk starts at ``root``
and follows the chosen step until it leads to a service. The graph rules have refused cycles, so every
walk ends.

A route's tier is the node that made the last choice, its version that choice's step. In a graph whose Switch
leads to one Splitter a tier, those are the tier and the version that a user means.

Sequence and Ensemble nodes call several services a request; they are not part of a walk.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Protocol

from baseload_manifests.core.graph import ROOT, InferenceGraphSpec, Node, Step
from baseload_router.core.classifier import TierDecision
from baseload_router.core.conditions import Condition, Inquiry, compile_condition
from baseload_router.core.target import Target, target_of

WALKED = ("Switch", "Splitter")


@dataclass(frozen=True, slots=True)
class Exit:
    """A step out of a node, to a node or to a service. An unnamed step is called by its index."""

    name: str
    leads_to: str | Target


@dataclass(frozen=True, slots=True)
class Route:
    """A walk that ended at a service. ``path`` holds node and step names in turn."""

    path: tuple[str, ...]
    tier: str
    version: str
    target: Target
    decision: TierDecision | None


@dataclass(frozen=True, slots=True)
class NoMatch:
    """A walk that ended at a Switch none of whose steps takes the request."""

    node: str
    reason: str


class Chooser(Protocol):
    """A compiled node."""

    def choose(self, inquiry: Inquiry, rng: Random) -> Exit | None:
        """The step to take; None when there is none for this request."""
        ...


@dataclass(frozen=True, slots=True)
class SwitchNode:
    """The first step whose condition matches; no step for a body that is not JSON."""

    branches: tuple[tuple[Condition, Exit], ...]

    def choose(self, inquiry: Inquiry, rng: Random) -> Exit | None:
        facts = inquiry.facts
        if facts is None:
            return None
        for condition, way in self.branches:
            if condition.matches(facts, inquiry):
                return way
        return None


@dataclass(frozen=True, slots=True)
class SplitterNode:
    """The step under whose share of [0, 100) a random point falls. ``bounds`` are cumulative weights."""

    bounds: tuple[int, ...]
    ways: tuple[Exit, ...]

    def choose(self, inquiry: Inquiry, rng: Random) -> Exit | None:
        return self.at(int(rng.random() * 100))

    def at(self, point: int) -> Exit:
        """The step that owns a point in [0, 100)."""
        return next(way for bound, way in zip(self.bounds, self.ways, strict=True) if point < bound)


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A graph ready to be walked, and every service that it can lead to, in the order of the manifest."""

    nodes: Mapping[str, Chooser]
    targets: tuple[Target, ...]


def compile_graph(spec: InferenceGraphSpec) -> CompiledGraph:
    """A spec that has passed the graph rules and has only Switch and Splitter nodes, and URLs."""
    steps = [step for node in spec.nodes.values() for step in node.steps]
    urls = dict.fromkeys(step.service_url for step in steps if step.service_url)
    nodes = {name: _compile_node(node) for name, node in spec.nodes.items()}
    return CompiledGraph(nodes, tuple(target_of(url) for url in urls))


def _compile_node(node: Node) -> Chooser:
    ways = tuple(_exit(index, step) for index, step in enumerate(node.steps))
    if node.router_type == "Switch":
        tests = [compile_condition(step.condition or "") for step in node.steps]
        return SwitchNode(tuple(zip(tests, ways, strict=True)))
    return SplitterNode(tuple(accumulate(step.weight or 0 for step in node.steps)), ways)


def _exit(index: int, step: Step) -> Exit:
    leads_to = step.node_name or target_of(step.service_url or "")
    return Exit(step.name or str(index), leads_to)


def walk(graph: CompiledGraph, inquiry: Inquiry, rng: Random) -> Route | NoMatch:
    """The service for one request."""
    node = ROOT
    path: list[str] = []
    while True:
        way = graph.nodes[node].choose(inquiry, rng)
        if way is None:
            return NoMatch(node, "None of the routes matched with the switch condition")
        path += (node, way.name)
        if isinstance(way.leads_to, Target):
            return Route(tuple(path), node, way.name, way.leads_to, inquiry.decision)
        node = way.leads_to
