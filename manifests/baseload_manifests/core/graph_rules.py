"""Rules that a schema cannot say: what KServe's admission refuses, and what it admits though it cannot work.

KServe checks the name, the root node, unique step names, one target a step, and Splitter weights. It does
not look at cycles, dangling or unreachable nodes, empty nodes, negative weights, URLs or conditions: such a
graph is admitted and fails on its first request. All of it is refused here, before anything runs.

Every rule is a generator of faults over one part of the graph, so that an author sees all of them at once.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from baseload_manifests.core.graph import ROOT, InferenceGraph, InferenceGraphSpec, Node, Step
from baseload_manifests.core.graph_conditions import matches_everything, syntax_fault
from baseload_manifests.core.problem import Problem

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


@dataclass(frozen=True, slots=True)
class Fault:
    """A Problem that does not yet know its file."""

    field: str
    reason: str
    fix: str

    def in_file(self, file: str) -> Problem:
        return Problem(file, self.field, self.reason, self.fix)


def check(graph: InferenceGraph) -> tuple[Fault, ...]:
    """Every fault of a graph as a manifest. Empty when it can be used."""
    return (*_name(graph.metadata.name), *check_spec(graph.spec))


def check_spec(spec: InferenceGraphSpec, prefix: str = "spec.") -> tuple[Fault, ...]:
    """Every fault of a graph proper; ``prefix`` leads the field names."""
    nodes = spec.nodes
    base = f"{prefix}nodes"
    return (
        *_root(base, nodes),
        *(fault for name, node in nodes.items() for fault in _node(f"{base}.{name}", node, nodes)),
        *_cycles(base, nodes),
        *_unreachable(base, nodes),
    )


def _name(name: str) -> Iterator[Fault]:
    if not _NAME.fullmatch(name):
        fix = "use lower-case letters, digits and '-', a letter first, no '-' last"
        yield Fault("metadata.name", f"{name!r} is not a valid name", fix)


def _root(base: str, nodes: Mapping[str, Node]) -> Iterator[Fault]:
    if ROOT not in nodes:
        yield Fault(base, f"there is no {ROOT!r} node, where a request enters", f"add a node named {ROOT}")


def _node(where: str, node: Node, nodes: Mapping[str, Node]) -> Iterator[Fault]:
    if not node.steps:
        yield Fault(f"{where}.steps", "the node has no steps", "add a step or remove the node")
        return
    yield from _step_names(where, node)
    for index, step in enumerate(node.steps):
        yield from _target(f"{where}.steps[{index}]", step, nodes)
    if node.router_type == "Splitter":
        yield from _weights(where, node)
    if node.router_type == "Switch":
        yield from _conditions(where, node)


def _step_names(where: str, node: Node) -> Iterator[Fault]:
    counts = Counter(step.name for step in node.steps if step.name)
    for name, count in counts.items():
        if count > 1:
            yield Fault(f"{where}.steps", f"{count} steps are named {name!r}", "give each its own name")


def _target(where: str, step: Step, nodes: Mapping[str, Node]) -> Iterator[Fault]:
    if len(step.targets) != 1:
        reason = f"{_called(step)} has {len(step.targets)} targets"
        yield Fault(where, reason, "give exactly one of nodeName, serviceName, serviceUrl")
    if step.node_name and step.node_name not in nodes:
        known = ", ".join(sorted(nodes))
        fix = f"add the node or name one of: {known}"
        yield Fault(f"{where}.nodeName", f"{_called(step)} leads to {step.node_name!r}, not a node", fix)
    if step.service_url:
        yield from _url(where, step, step.service_url)


def _url(where: str, step: Step, url: str) -> Iterator[Fault]:
    reason = _url_fault(url)
    if reason:
        fix = "write http://HOST[:PORT]/PATH"
        yield Fault(f"{where}.serviceUrl", f"{_called(step)} has the malformed URL {url!r}: {reason}", fix)


def _url_fault(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("http", "https"):
        return "the scheme is not http or https"
    if not _HOST.fullmatch(parts.hostname or "") or port == 0:
        return "the host or port is not valid"
    if parts.username is not None or parts.fragment:
        return "user names and fragments are not sent to a service"
    return (
        None if url.isascii() and url.isprintable() and " " not in url else "it has characters to be escaped"
    )


def _weights(where: str, node: Node) -> Iterator[Fault]:
    for index, step in enumerate(node.steps):
        field = f"{where}.steps[{index}].weight"
        if step.weight is None:
            yield Fault(field, f"{_called(step)} has no weight", "add a weight")
        elif step.weight < 0:
            yield Fault(field, f"{_called(step)} has weight {step.weight}", "write 0 to 100")
    total = sum(step.weight or 0 for step in node.steps)
    if total != 100:
        yield Fault(f"{where}.steps", f"the weights add up to {total}", "make them add up to 100")


def _conditions(where: str, node: Node) -> Iterator[Fault]:
    certain: str | None = None
    for index, step in enumerate(node.steps):
        field = f"{where}.steps[{index}]"
        yield from _condition(f"{field}.condition", step)
        if certain is not None:
            reason = f"{_called(step)} is never reached: {certain} matches every request"
            yield Fault(field, reason, "move the step that matches everything last")
        elif step.condition and matches_everything(step.condition):
            certain = f"condition {step.condition!r} of step [{index}]"


def _condition(field: str, step: Step) -> Iterator[Fault]:
    if not step.condition:
        fix = "add a gjson condition; '@this' matches every request"
        yield Fault(field, f"{_called(step)} has no condition, so it never matches", fix)
        return
    reason = syntax_fault(step.condition)
    if reason:
        yield Fault(field, f"condition {step.condition!r} does not parse: {reason}", "mend the condition")


def _cycles(base: str, nodes: Mapping[str, Node]) -> Iterator[Fault]:
    """Depth first without recursion, since a graph may be deep; each edge is followed once."""
    done: set[str] = set()
    for start in nodes:
        path = [start]
        edges = [_edges(start, nodes)]
        while edges:
            index, target = next(edges[-1], (0, None))
            if target is None:
                edges.pop()
                done.add(path.pop())
            elif target in path:
                loop = " -> ".join([*path[path.index(target) :], target])
                field = f"{base}.{path[-1]}.steps[{index}].nodeName"
                yield Fault(field, f"the nodes form a cycle: {loop}", "lead the step to a later node")
            elif target not in done:
                path.append(target)
                edges.append(_edges(target, nodes))


def _edges(name: str, nodes: Mapping[str, Node]) -> Iterator[tuple[int, str]]:
    """The steps of a node that lead to a node: index and node."""
    for index, step in enumerate(nodes[name].steps):
        if step.node_name is not None and step.node_name in nodes:
            yield index, step.node_name


def _unreachable(base: str, nodes: Mapping[str, Node]) -> Iterator[Fault]:
    if ROOT not in nodes:
        return
    reached = {ROOT}
    waiting = [ROOT]
    while waiting:
        fresh = {target for _, target in _edges(waiting.pop(), nodes)} - reached
        reached |= fresh
        waiting.extend(fresh)
    for name in nodes:
        if name not in reached:
            fix = "lead a step to it with nodeName, or remove it"
            yield Fault(f"{base}.{name}", f"no step leads from {ROOT} to this node", fix)


def _called(step: Step) -> str:
    return f"step {step.name!r}" if step.name else "the step"
