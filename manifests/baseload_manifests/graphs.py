"""InferenceGraphs from files and from the command line, typed and checked."""

import json
from pathlib import Path

from baseload_manifests.core.graph import InferenceGraph, InferenceGraphSpec
from baseload_manifests.core.graph_rules import check, check_spec
from baseload_manifests.core.problem import Problem
from baseload_manifests.errors import ManifestError
from baseload_manifests.loader import Document, parse, read_documents


def load_graph(path: Path, name: str | None = None) -> InferenceGraph:
    """The InferenceGraph of a file, or the one called ``name`` where the file has several.

    Raises ManifestError with every fault of the graph, by file, field and fix.
    """
    document = _pick(path, [found for found in read_documents(path) if found.kind == "InferenceGraph"], name)
    graph = parse(InferenceGraph, document)
    faults = check(graph)
    if faults:
        raise ManifestError([fault.in_file(document.locate(fault.field)) for fault in faults])
    return graph


def parse_graph_spec(text: str, source: str) -> InferenceGraphSpec:
    """A graph's ``spec`` alone, as JSON: what KServe's controller gives to a router. Raises ManifestError.

    source: how error messages name the text, such as ``--graph-json``.
    """
    try:
        body = json.loads(text)
    except ValueError as error:
        raise _refused(
            source, "(syntax)", f"is not JSON: {error}", "pass the graph's spec as JSON"
        ) from error
    if not isinstance(body, dict):
        raise _refused(source, "(document)", "is not a JSON object", 'pass the graph\'s spec: {"nodes": ...}')
    spec = parse(InferenceGraphSpec, Document(source, body))
    faults = check_spec(spec, prefix="")
    if faults:
        raise ManifestError([fault.in_file(source) for fault in faults])
    return spec


def _pick(path: Path, graphs: list[Document], name: str | None) -> Document:
    chosen = [graph for graph in graphs if name is None or graph.name == name]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(graph.name for graph in graphs) or "none"
    wanted = f"named {name!r}" if name else "to load"
    reason = f"holds {len(chosen)} InferenceGraphs {wanted} (found: {names})"
    raise _refused(str(path), "metadata.name", reason, "name exactly one InferenceGraph of the file")


def _refused(file: str, field: str, reason: str, fix: str) -> ManifestError:
    return ManifestError([Problem(file, field, reason, fix)])
