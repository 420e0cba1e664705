"""Choosing an endpoint, retrying, paths, headers, and the files that set limits."""

import re
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from baseload_router.core.endpoint_list import EndpointList
from baseload_router.core.forwarding import downstream_headers, upstream_headers, withheld
from baseload_router.core.pick import AllAtCapacity, Pick, pick
from baseload_router.core.policy import Policy
from baseload_router.core.retry import Loss, NextStep, after_loss
from baseload_router.core.target import openai_endpoint, target_of, upstream_path


@dataclass(frozen=True, slots=True)
class Candidate:
    in_flight: int
    capacity: int = 10
    cooling_until: float = 0.0


def index_of(*candidates: Candidate, excluded: tuple[int, ...] = (), now: float = 100.0) -> int:
    picked = pick(candidates, now, Random(1), excluded)
    assert isinstance(picked, Pick)
    return picked.index


def test_the_least_load_for_its_capacity_is_picked() -> None:
    assert index_of(Candidate(4), Candidate(3), Candidate(5)) == 1
    assert index_of(Candidate(2, capacity=4), Candidate(3, capacity=32)) == 1


def test_equals_are_drawn_at_random() -> None:
    rng = Random(3)
    seen = {pick([Candidate(1), Candidate(1)], 0.0, rng) for _ in range(30)}
    assert {picked.index for picked in seen if isinstance(picked, Pick)} == {0, 1}


def test_an_endpoint_that_was_unreachable_a_moment_ago_is_avoided_while_others_have_room() -> None:
    cold = Candidate(0, cooling_until=101.0)
    assert index_of(cold, Candidate(9)) == 1
    assert index_of(cold, Candidate(10)) == 0
    assert index_of(cold, Candidate(9), now=101.0) == 0
    assert pick([cold, Candidate(10)], 100.0, Random(0)) == Pick(
        0, "none with room was reachable a moment ago"
    )


def test_the_only_endpoint_is_picked_while_it_has_room() -> None:
    assert pick([Candidate(9)], 0.0, Random(0)) == Pick(0, "the only endpoint")
    assert pick([Candidate(10)], 0.0, Random(0)) == AllAtCapacity("all 1 endpoints are at capacity")
    assert isinstance(pick([Candidate(0)], 0.0, Random(0), (0,)), AllAtCapacity)


candidates = st.builds(Candidate, st.integers(0, 12), st.integers(1, 12), st.sampled_from([0.0, 50.0, 150.0]))


@given(st.lists(candidates, max_size=8), st.sets(st.integers(0, 7)), st.randoms(use_true_random=False))
def test_a_pick_has_room_is_not_excluded_and_none_like_it_has_less_load(
    given_candidates: list[Candidate], excluded: set[int], rng: Random
) -> None:
    usable = [
        index
        for index, candidate in enumerate(given_candidates)
        if candidate.in_flight < candidate.capacity and index not in excluded
    ]
    picked = pick(given_candidates, 100.0, rng, excluded)
    if isinstance(picked, AllAtCapacity):
        assert usable == []
        return
    assert picked.index in usable
    chosen = given_candidates[picked.index]
    for index in usable:
        other = given_candidates[index]
        assert chosen.cooling_until <= 100.0 or other.cooling_until > 100.0
        if (other.cooling_until <= 100.0) == (chosen.cooling_until <= 100.0):
            assert chosen.in_flight * other.capacity <= other.in_flight * chosen.capacity


@pytest.mark.parametrize(
    ("loss", "step"),
    [
        (Loss(pooled=False, marked=False, retries=0), NextStep.RETRY),
        (Loss(pooled=False, marked=False, retries=1), NextStep.FAIL),
        (Loss(pooled=False, marked=True, retries=0), NextStep.FAIL),
        (Loss(pooled=True, marked=True, retries=0), NextStep.REDIAL),
        (Loss(pooled=True, marked=False, retries=1), NextStep.REDIAL),
    ],
)
def test_a_request_is_retried_once_elsewhere_and_never_when_it_is_itself_a_retry(
    loss: Loss, step: NextStep
) -> None:
    assert after_loss(loss).step is step
    assert after_loss(loss).reason


def test_an_openai_base_gets_the_endpoint_that_the_client_asked_for() -> None:
    for url in ("http://a/openai/v1", "http://a/openai/v1/"):
        base = target_of(url)
        assert base.is_openai_base
        assert upstream_path(base, b"/v1/chat/completions?x=1&y") == b"/openai/v1/chat/completions?x=1&y"
        assert upstream_path(base, b"/openai/v1/embeddings") == b"/openai/v1/embeddings"
        assert upstream_path(base, b"/predict") is None


def test_any_other_url_is_called_as_it_stands() -> None:
    target = target_of("https://small.ns.svc.cluster.local/v1/models/m:predict?q=1")
    assert not target.is_openai_base
    assert (target.host, target.port) == ("small.ns.svc.cluster.local", 443)
    assert target.service_names == ("small.ns.svc.cluster.local", "small")
    assert upstream_path(target, b"/anything?else") == b"/v1/models/m:predict?q=1"
    assert target_of("http://a").path == b"/"
    assert not target_of("http://a/openai/v1?q=1").is_openai_base


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/",
        b"/v1",
        b"/v1/../metrics",
        b"/v1/a/%2E%2e/b",
        b"/v1/./a",
        b"/v1//a",
        b"/v1/a#b",
        b"/",
        b"/v2/x",
    ],
)
def test_paths_that_leave_the_base_are_no_endpoint(path: bytes) -> None:
    assert openai_endpoint(path) is None


def test_hop_by_hop_and_private_headers_stop_and_all_others_go_on() -> None:
    sent = [
        (b"traceparent", b"00-1"),
        (b"authorization", b"Bearer x"),
        (b"cookie", b"a=b"),
        (b"connection", b"X-Hop , close"),
        (b"x-hop", b"1"),
        (b"te", b"trailers"),
        (b"host", b"h"),
        (b"content-length", b"3"),
        (b"x-retry-attempt", b"1"),
    ]
    kept = [(b"traceparent", b"00-1"), (b"x-retry-attempt", b"1")]
    assert upstream_headers(sent, withheld([], [])) == kept


def test_private_headers_pass_where_policy_or_kserves_patterns_allow_them() -> None:
    sent = [(b"authorization", b"Bearer x"), (b"cookie", b"a=b"), (b"connection", b"keep-alive")]
    assert upstream_headers(sent, withheld(["Authorization"], [])) == [(b"authorization", b"Bearer x")]
    assert upstream_headers(sent, withheld([], [re.compile("Coo*")])) == [(b"cookie", b"a=b")]
    assert upstream_headers(sent, withheld([], [re.compile("cookie")])) == []


def test_an_endpoints_headers_go_back_without_those_of_the_hop_and_the_routers_own() -> None:
    answered = [
        (b"content-type", b"text/event-stream"),
        (b"transfer-encoding", b"chunked"),
        (b"x-baseload-tier", b"fake"),
        (b"x-request-id", b"theirs"),
        (b"x-up", b"1"),
    ]
    assert downstream_headers(answered) == [(b"content-type", b"text/event-stream"), (b"x-up", b"1")]


def test_an_endpoints_file_is_read() -> None:
    text = '{"version":1,"services":{"a":{"endpoints":[{"url":"http://127.0.0.1:1","capacity":2}]},"b":{"endpoints":[]}}}'
    listed = EndpointList.model_validate_json(text)
    assert listed.services["a"].endpoints[0].capacity == 2
    assert listed.services["b"].endpoints == []


@pytest.mark.parametrize(
    "endpoint",
    [
        '{"url": "127.0.0.1:1"}',
        '{"url": "http://a:0"}',
        '{"url": "http://a:1/path"}',
        '{"url": "http://a:1", "capacity": 0}',
        '{"url": "http://a:1", "weight": 1}',
    ],
)
def test_an_endpoint_that_could_not_be_called_is_refused(endpoint: str) -> None:
    with pytest.raises(ValidationError):
        EndpointList.model_validate_json(f'{{"version":1,"services":{{"a":{{"endpoints":[{endpoint}]}}}}}}')


def test_the_policy_refuses_unknown_fields_and_limits_that_mean_nothing() -> None:
    assert Policy.model_validate({"upstream_timeout_s": 3}).upstream_timeout_s == 3.0
    for wrong in ({"upstream_timeouts": 3}, {"upstream_timeout_s": 0}, {"default_capacity": 0}):
        with pytest.raises(ValidationError):
            Policy.model_validate(wrong)
