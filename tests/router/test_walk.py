"""From a request to a route, through Switch and Splitter nodes."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_manifests.core.graph import InferenceGraphSpec
from baseload_manifests.core.graph_rules import check_spec
from baseload_router.core.classifier import TierDecision
from baseload_router.core.conditions import Inquiry
from baseload_router.core.facts import OpenAIRequest, read_facts
from baseload_router.core.walk import NoMatch, Route, SplitterNode, compile_graph, walk

CASES = json.loads((Path(__file__).parent / "data" / "graph_walks.json").read_text())["cases"]


class Always:
    """A classifier with one answer, which counts how often it is asked."""

    def __init__(self, tier: str = "small") -> None:
        self.asked = 0
        self._tier = tier

    def classify(self, request: OpenAIRequest) -> TierDecision:
        self.asked += 1
        return TierDecision(self._tier, "as told")


def node(kind: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"routerType": kind, "steps": list(steps)}


def service(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "serviceUrl": f"http://{name}/openai/v1", **more}


def go(nodes: dict[str, Any], body: Any, tier: str = "small", seed: int = 0) -> Route | NoMatch:
    spec = InferenceGraphSpec.model_validate({"nodes": nodes})
    assert check_spec(spec) == ()
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return walk(compile_graph(spec), Inquiry(read_facts(raw), Always(tier)), Random(seed))


TIERED = {
    "root": node(
        "Switch",
        {"name": "small", "nodeName": "small", "condition": '[@this].#(model=="small")'},
        {"name": "auto", "nodeName": "large", "condition": "@tier:large"},
        {"name": "default", "nodeName": "small", "condition": "@this"},
    ),
    "small": node("Splitter", service("stable", weight=100)),
    "large": node("Splitter", service("old", weight=40), service("new", weight=60)),
}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_graph_leads_where_kserve_leads_it(case: dict[str, Any]) -> None:
    found = go(case["nodes"], case["body"].encode() if isinstance(case["body"], str) else case["body"])
    reached = found.target.host if isinstance(found, Route) else None
    assert reached == case["reaches"]


def test_the_tier_is_the_last_node_and_the_version_its_step() -> None:
    found = go(TIERED, {"model": "small"})
    assert isinstance(found, Route)
    assert (found.tier, found.version, found.target.host) == ("small", "stable", "stable")
    assert found.path == ("root", "small", "small", "stable")
    assert found.decision is None


def test_a_tier_condition_asks_the_classifier_and_the_route_tells_its_reason() -> None:
    found = go(TIERED, {"model": "auto"}, tier="large")
    assert isinstance(found, Route)
    assert found.tier == "large"
    assert found.decision == TierDecision("large", "as told")
    assert found.path[:2] == ("root", "auto")


def test_a_request_is_classified_once_and_only_when_a_condition_asks() -> None:
    nodes = {
        "root": node(
            "Switch",
            service("named", condition='[@this].#(model=="small")'),
            service("a", condition="@tier:large"),
            service("b", condition="@tier:small"),
        )
    }
    graph = compile_graph(InferenceGraphSpec.model_validate({"nodes": nodes}))
    for model, asked in (("small", 0), ("auto", 1)):
        classifier = Always("small")
        facts = read_facts(json.dumps({"model": model}).encode())
        walk(graph, Inquiry(facts, classifier), Random(0))
        assert classifier.asked == asked


def test_a_walk_without_a_match_says_where_it_ended() -> None:
    nodes = {
        "root": node("Splitter", {"name": "a", "nodeName": "inner", "weight": 100}),
        "inner": node("Switch", service("x", condition="absent")),
    }
    assert go(nodes, {"model": "y"}) == NoMatch(
        "inner", "None of the routes matched with the switch condition"
    )


def test_unnamed_steps_are_called_by_their_index() -> None:
    found = go({"root": node("Splitter", {"serviceUrl": "http://a/p", "weight": 100})}, b"no json at all")
    assert isinstance(found, Route)
    assert (found.tier, found.version) == ("root", "0")


def test_the_graph_knows_every_service_once_in_the_order_of_the_manifest() -> None:
    nodes = {"root": node("Splitter", service("b", weight=50), service("a", weight=50))}
    nodes["root"]["steps"].append({"name": "again", "serviceUrl": "http://b/openai/v1", "weight": 0})
    graph = compile_graph(InferenceGraphSpec.model_validate({"nodes": nodes}))
    assert [target.host for target in graph.targets] == ["b", "a"]


def splitter(weights: list[int]) -> SplitterNode:
    steps = [service(f"s{index}", weight=weight) for index, weight in enumerate(weights)]
    compiled = compile_graph(InferenceGraphSpec.model_validate({"nodes": {"root": node("Splitter", *steps)}}))
    found = compiled.nodes["root"]
    assert isinstance(found, SplitterNode)
    return found


weights_that_add_up = st.lists(st.integers(0, 100), max_size=6).map(
    lambda cuts: [b - a for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 100], strict=True)]
)


@given(weights_that_add_up)
def test_every_one_of_the_100_points_has_a_step_and_each_step_has_its_weight(weights: list[int]) -> None:
    shares = Counter(splitter(weights).at(point).name for point in range(100))
    assert [shares[f"s{index}"] for index in range(len(weights))] == weights


def test_draws_are_within_range_and_near_the_weights() -> None:
    chosen = splitter([20, 80])
    rng = Random(7)
    inquiry = Inquiry(None, Always())
    shares = Counter(way.name for _ in range(10_000) if (way := chosen.choose(inquiry, rng)))
    assert shares.total() == 10_000
    assert abs(shares["s0"] - 2_000) < 200


def test_the_highest_draw_there_is_picks_the_last_step() -> None:
    class Highest(Random):
        def random(self) -> float:
            return 1.0 - 2**-53

    way = splitter([99, 1]).choose(Inquiry(None, Always()), Highest())
    assert way is not None
    assert way.name == "s1"
