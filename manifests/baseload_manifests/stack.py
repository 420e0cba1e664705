"""A stack: the services and the graph of one kustomize folder, checked and ready to be run on one machine."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar

from baseload_manifests.collect import collecting, raise_any
from baseload_manifests.core.base import Manifest
from baseload_manifests.core.graph import InferenceGraph
from baseload_manifests.core.graph_rules import Fault
from baseload_manifests.core.graph_rules import check as check_graph
from baseload_manifests.core.problem import Problem
from baseload_manifests.core.replica import SecretEnv, ServiceSpec, resolve
from baseload_manifests.core.service import InferenceService, Secret, ServiceAccount, ServingRuntime
from baseload_manifests.core.service_rules import check_runtime, check_service
from baseload_manifests.core.stack_rules import check_pair, check_reference, check_targets
from baseload_manifests.kustomize import render
from baseload_manifests.loader import Document, parse

__all__ = ["SecretEnv", "ServiceSpec", "Stack", "load_stack"]

T = TypeVar("T", bound=Manifest)

_KINDS = ("InferenceService", "ServingRuntime", "InferenceGraph", "Secret", "ServiceAccount")


@dataclass(frozen=True, slots=True)
class Stack:
    """services: in the manifests' order. graph_document: the graph as a plain mapping, for the router."""

    services: tuple[ServiceSpec, ...]
    graph: InferenceGraph
    graph_document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Parsed(Generic[T]):
    document: Document
    manifest: T

    def located(self, faults: Iterable[Fault]) -> Iterator[Problem]:
        """Problems that point to the line of their field, be it in a base or in a patch."""
        for fault in faults:
            yield fault.in_file(self.document.locate(fault.field))


def load_stack(folder: Path) -> Stack:
    """The stack of a kustomize folder. Raises ManifestError with every fault of every object."""
    documents = render(folder)
    problems = [*_unknown_kinds(documents), *_miscounted(folder, documents)]
    services = _parsed(InferenceService, documents, problems)
    runtimes = _parsed(ServingRuntime, documents, problems)
    graphs = _parsed(InferenceGraph, documents, problems)
    _parsed(Secret, documents, problems)
    _parsed(ServiceAccount, documents, problems)
    by_name = {(found.document.namespace, found.document.name): found.manifest for found in runtimes}
    problems += (problem for service in services for problem in _service_faults(service, documents, by_name))
    problems += (
        problem for runtime in runtimes for problem in runtime.located(check_runtime(runtime.manifest))
    )
    problems += (problem for graph in graphs for problem in _graph_faults(graph, documents))
    raise_any(problems)
    return Stack(
        services=tuple(
            resolve(found.manifest, by_name[_runtime_name(found)], found.document.source)
            for found in services
        ),
        graph=graphs[0].manifest,
        graph_document=graphs[0].document.body,
    )


def _parsed(model: type[T], documents: list[Document], problems: list[Problem]) -> list[_Parsed[T]]:
    found: list[_Parsed[T]] = []
    for document in documents:
        if document.kind == model.__name__:
            with collecting(problems):
                found.append(_Parsed(document, parse(model, document)))
    return found


def _unknown_kinds(documents: list[Document]) -> Iterator[Problem]:
    for document in documents:
        if document.kind not in _KINDS:
            near = get_close_matches(document.kind, _KINDS, n=1)
            fix = f"write {near[0]}" if near else f"remove it (known here: {', '.join(_KINDS)})"
            reason = f"{document.kind!r} is no kind that a stack is made of"
            yield Problem(document.locate("kind"), "kind", reason, fix)


def _miscounted(folder: Path, documents: list[Document]) -> Iterator[Problem]:
    graphs = [document for document in documents if document.kind == "InferenceGraph"]
    if not graphs:
        yield Problem(str(folder), "resources", "there is no InferenceGraph for the router", "add one")
    for document in graphs[1:]:
        reason = f"is a second InferenceGraph beside {graphs[0].source}, and one router serves one graph"
        yield Problem(document.source, "(document)", reason, "remove one")
    if not any(document.kind == "InferenceService" for document in documents):
        yield Problem(str(folder), "resources", "there is no InferenceService", "add one")


def _service_faults(
    service: _Parsed[InferenceService],
    documents: list[Document],
    runtimes: Mapping[tuple[str, str], ServingRuntime],
) -> Iterator[Problem]:
    yield from service.located(check_service(service.manifest))
    names = _names(
        "ServingRuntime", [found for found in documents if found.namespace == service.document.namespace]
    )
    yield from service.located(check_reference(service.manifest, names))
    runtime = runtimes.get(_runtime_name(service))
    if runtime is not None:
        yield from service.located(check_pair(service.manifest, runtime))


def _graph_faults(graph: _Parsed[InferenceGraph], documents: list[Document]) -> Iterator[Problem]:
    yield from graph.located(check_graph(graph.manifest))
    yield from graph.located(check_targets(graph.manifest.spec, _names("InferenceService", documents)))


def _names(kind: str, documents: list[Document]) -> list[str]:
    """The names of a kind, also of those objects that have faults."""
    return [document.name for document in documents if document.kind == kind]


def _runtime_name(service: _Parsed[InferenceService]) -> tuple[str, str]:
    return service.document.namespace, service.manifest.spec.predictor.model.runtime
