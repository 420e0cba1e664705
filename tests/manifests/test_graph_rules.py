"""What is refused before a graph runs, and in which words."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from baseload_manifests.core.graph import InferenceGraph, InferenceGraphSpec
from baseload_manifests.core.graph_rules import Fault, check, check_spec
from baseload_manifests.core.problem import Problem

ADMISSION = json.loads((Path(__file__).parent / "data" / "graph_admission.json").read_text())["cases"]
SERVICE = {"serviceUrl": "http://a/openai/v1"}


def graph(nodes: dict[str, Any], name: str = "chat") -> InferenceGraph:
    return InferenceGraph.model_validate(
        {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "InferenceGraph",
            "metadata": {"name": name},
            "spec": {"nodes": nodes},
        }
    )


def faults(nodes: dict[str, Any]) -> list[Fault]:
    return list(check(graph(nodes)))


def reasons(nodes: dict[str, Any]) -> list[str]:
    return [fault.reason for fault in faults(nodes)]


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"routerType": "Sequence", "steps": list(steps)}


def switch(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"routerType": "Switch", "steps": list(steps)}


def refusal(case: dict[str, Any]) -> str | None:
    """Why a graph is refused, by shape or by rule; None when it is accepted."""
    try:
        found = check(graph(case["nodes"], case["name"]))
    except ValidationError as error:
        return str(error).lower()
    return "\n".join(fault.reason for fault in found) or None


@pytest.mark.parametrize("case", ADMISSION, ids=[case["id"] for case in ADMISSION])
def test_admission_refuses_what_kserve_refuses_and_what_could_never_work(case: dict[str, Any]) -> None:
    assert case["kserve_admits"] or not case["accepted"], "what KServe refuses must be refused here"
    refused = refusal(case)
    if case["accepted"]:
        assert refused is None
    else:
        assert refused is not None
        assert case["says"] in refused


def test_a_fault_becomes_a_problem_of_its_file() -> None:
    assert Fault("spec.nodes", "is wrong", "mend it").in_file("g.yaml:3") == Problem(
        "g.yaml:3", "spec.nodes", "is wrong", "mend it"
    )


def test_all_faults_are_found_at_once_each_with_its_field() -> None:
    found = faults(
        {
            "root": {"routerType": "Splitter", "steps": [{"name": "a", "weight": 90, "nodeName": "gone"}]},
            "alone": switch({"condition": "", **SERVICE}),
        }
    )
    assert [(fault.field, fault.reason) for fault in found] == [
        ("spec.nodes.root.steps[0].nodeName", "step 'a' leads to 'gone', not a node"),
        ("spec.nodes.root.steps", "the weights add up to 90"),
        ("spec.nodes.alone.steps[0].condition", "the step has no condition, so it never matches"),
        ("spec.nodes.alone", "no step leads from root to this node"),
    ]


def test_a_spec_alone_has_its_own_field_names() -> None:
    spec = InferenceGraphSpec.model_validate({"nodes": {"root": sequence()}})
    assert [fault.field for fault in check_spec(spec, prefix="")] == ["nodes.root.steps"]


def test_a_cycle_names_its_path() -> None:
    found = faults(
        {
            "root": sequence({"nodeName": "a"}),
            "a": sequence(SERVICE, {"nodeName": "b"}),
            "b": sequence({"nodeName": "a"}, {"nodeName": "c"}),
            "c": sequence(SERVICE),
        }
    )
    assert found == [
        Fault(
            "spec.nodes.b.steps[0].nodeName",
            "the nodes form a cycle: a -> b -> a",
            "lead the step to a later node",
        )
    ]


def test_two_ways_to_one_node_are_no_cycle() -> None:
    nodes = {
        "root": sequence({"nodeName": "a"}, {"nodeName": "b"}),
        "a": sequence({"nodeName": "b"}),
        "b": sequence(SERVICE),
    }
    assert reasons(nodes) == []


def test_a_step_behind_one_that_matches_everything_is_refused() -> None:
    for certain in ("@this", '[@this].#(model=="small")#'):
        nodes = {
            "root": switch({"condition": certain, **SERVICE}, {"name": "b", "condition": "x", **SERVICE})
        }
        (reason,) = reasons(nodes)
        assert reason == (
            f"step 'b' is never reached: condition {certain!r} of step [0] matches every request"
        )


@pytest.mark.parametrize(
    "condition",
    [
        '[@this].#(model=="small")',
        "[@this].#(decision_picker==ERROR)",
        "messages.#(role=user).content",
        r"a\(b",
        'friends.#(nets.#(=="fb"))#.first',
        '[@this].#(text=="a ) b")',
        '@pretty:{"indent":""}',
        "{model,stream}",
        "@tier:large",
        "@tier:small",
    ],
)
def test_conditions_that_can_match_are_accepted(condition: str) -> None:
    assert reasons({"root": switch({"condition": condition, **SERVICE})}) == []


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ('[@this].#(model=="small"', "'(' is not closed"),
        ("[@this.#(model)", "'[' is not closed"),
        ("model)", "')' closes nothing"),
        ("#(a]", "']' closes nothing"),
        ('#(a=="b)', "a quoted string is not closed"),
        ("model\\", "it ends in a lone backslash"),
        ("@tier:lage", "there is no tier 'lage' (known: small, large)"),
    ],
)
def test_conditions_that_never_match_are_refused(condition: str, why: str) -> None:
    (reason,) = reasons({"root": switch({"condition": condition, **SERVICE})})
    assert reason == f"condition {condition!r} does not parse: {why}"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("small-predictor/openai/v1", "the scheme is not http or https"),
        ("ftp://small/", "the scheme is not http or https"),
        ("http:///openai/v1", "the host or port is not valid"),
        ("http://a b/", "the host or port is not valid"),
        ("http://a:0/", "the host or port is not valid"),
        ("http://a:99999/", "Port out of range 0-65535"),
        ("http://[::1/", "Invalid IPv6 URL"),
        ("http://u:p@a/", "user names and fragments are not sent to a service"),
        ("http://a/#x", "user names and fragments are not sent to a service"),
        ("http://a/b c", "it has characters to be escaped"),
        ("http://a/b\u00e4", "it has characters to be escaped"),
    ],
)
def test_a_malformed_url_names_its_step(url: str, why: str) -> None:
    (reason,) = reasons({"root": sequence({"name": "first", "serviceUrl": url})})
    assert reason == f"step 'first' has the malformed URL {url!r}: {why}"


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://a.ns.svc.cluster.local/p?q=1"])
def test_service_urls_that_can_be_called_are_accepted(url: str) -> None:
    assert reasons({"root": sequence({"serviceUrl": url})}) == []


names = st.sampled_from(["root", "a", "b", "c", "d"])


@given(st.dictionaries(names, st.lists(names, min_size=1, max_size=4), max_size=5))
def test_a_graph_passes_exactly_when_every_walk_from_root_ends_and_every_node_is_met(
    edges: dict[str, list[str]],
) -> None:
    nodes = {
        name: sequence(SERVICE, *({"nodeName": to} for to in targets)) for name, targets in edges.items()
    }

    def walk(name: str, above: tuple[str, ...]) -> set[str] | None:
        if name in above or name not in edges:
            return None
        met = {name}
        for target in edges[name]:
            below = walk(target, (*above, name))
            if below is None:
                return None
            met |= below
        return met

    assert (reasons(nodes) == []) == (walk("root", ()) == set(edges))
