"""From the files and texts that the settings name to what the router runs on. Raises ManifestError."""

import logging
import re
from pathlib import Path

from baseload_manifests.core.graph import InferenceGraphSpec
from baseload_manifests.core.problem import Problem
from baseload_manifests.errors import ManifestError
from baseload_manifests.graphs import load_graph, parse_graph_spec
from baseload_manifests.loader import parse, read_documents
from baseload_router.core.policy import Policy
from baseload_router.core.walk import WALKED, CompiledGraph, compile_graph

_log = logging.getLogger(__name__)


def read_graph(file: Path | None, text: str | None) -> CompiledGraph:
    """The graph to serve, from a manifest or from a spec as JSON."""
    if file is not None:
        spec, source, prefix = load_graph(file).spec, str(file), "spec."
    else:
        spec, source, prefix = parse_graph_spec(text or "", "--graph-json"), "--graph-json", ""
    problems = _unsupported(spec, source, prefix)
    if problems:
        raise ManifestError(problems)
    return compile_graph(spec)


def read_policy(file: Path | None) -> Policy:
    """The policy of a file, or the defaults."""
    if file is None:
        return Policy()
    documents = read_documents(file)
    if len(documents) > 1:
        fix = "leave one document in the file"
        raise ManifestError([Problem(str(file), "(file)", f"has {len(documents)} documents", fix)])
    return parse(Policy, documents[0]) if documents else Policy()


def read_patterns(text: str) -> list[re.Pattern[str]]:
    """KServe's PROPAGATE_HEADERS. A pattern that does not compile is reported and left out."""
    patterns = []
    for source in filter(None, (part.strip() for part in text.split(","))):
        try:
            patterns.append(re.compile(source))
        except re.error as error:
            _log.warning(
                "header pattern left out", extra={"fields": {"pattern": source, "detail": str(error)}}
            )
    return patterns


def _unsupported(spec: InferenceGraphSpec, source: str, prefix: str) -> list[Problem]:
    problems = []
    for name, node in spec.nodes.items():
        field = f"{prefix}nodes.{name}"
        if node.router_type not in WALKED:
            reason = f"{node.router_type} nodes are not supported yet by this router"
            problems.append(Problem(source, f"{field}.routerType", reason, f"use {' or '.join(WALKED)}"))
        for index, step in enumerate(node.steps):
            if step.service_name:
                reason = f"serviceName {step.service_name!r} has not been resolved to a URL"
                fix = "write serviceUrl, such as http://SERVICE-predictor/openai/v1"
                problems.append(Problem(source, f"{field}.steps[{index}].serviceName", reason, fix))
    return problems
