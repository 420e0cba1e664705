"""The synchronous client against a real socket: retry, fallback, breaker, limits, reports."""

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest

from baseload_client import (
    AllTargetsFailedError,
    BudgetConfig,
    Client,
    DeadlineExceededError,
    ResilientTransport,
    RetryBudget,
    resilience_of,
)
from baseload_client.testing import CloseBeforeReply, Echo, FakeUpstream, Hang, Reply, VirtualClock

MakeClient = Callable[..., Client]

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
DOWN = Reply(status=503)


def models(upstream: FakeUpstream) -> list[str]:
    return [request.model for request in upstream.requests]


def unused_base_url() -> str:
    with FakeUpstream() as gone:
        return gone.base_url


def test_good_reply_passes_through_untouched(upstream: FakeUpstream, make_client: MakeClient) -> None:
    completion = make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    assert completion.choices[0].message.content == "reply from small"
    report = resilience_of(completion)
    assert report is not None
    assert (report.tier_requested, report.tier_served, report.downgraded) == ("small", "small", False)
    assert [(attempt.status, attempt.reason) for attempt in report.attempts] == [(200, "ok")]
    assert "x-retry-attempt" not in upstream.requests[0].headers


@pytest.mark.parametrize(
    "fault", [DOWN, Reply(status=500), Reply(status=502), Reply(status=504), CloseBeforeReply()]
)
def test_falls_back_to_the_other_tier_when_one_is_down(
    upstream: FakeUpstream, make_client: MakeClient, fault: Reply | CloseBeforeReply
) -> None:
    upstream.script(fault, fault)
    completion = make_client(upstream.base_url).chat.completions.create(model="large", **ASK)
    assert completion.choices[0].message.content == "reply from small"
    assert models(upstream) == ["large", "large", "small"]
    report = resilience_of(completion)
    assert report is not None
    assert (report.tier_served, report.downgraded) == ("small", True)


def test_falls_back_to_another_endpoint_when_the_first_refuses_connections(
    upstream: FakeUpstream, make_client: MakeClient
) -> None:
    elsewhere = {"small": [{"model": "large", "base_url": upstream.url + "/openai/v1"}]}
    client = make_client(unused_base_url(), fallbacks=elsewhere)
    completion = client.chat.completions.create(model="small", **ASK)
    assert completion.choices[0].message.content == "reply from large"
    assert [request.path for request in upstream.requests] == ["/openai/v1/chat/completions"]
    assert upstream.requests[0].headers["host"] == f"127.0.0.1:{upstream.port}"


def test_every_attempt_carries_one_request_id_its_number_and_the_time_left(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    upstream.script(Reply(status=503, headers={"retry-after": "2"}), DOWN)
    make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    headers = [request.headers for request in upstream.requests]
    assert [header.get("x-retry-attempt") for header in headers] == [None, "1", "2"]
    assert len({header["x-request-id"] for header in headers}) == 1
    assert [header["x-request-timeout-ms"] for header in headers] == ["120000", "118000", "118000"]
    assert clock.slept == [2.0]


def test_callers_own_request_id_is_kept(upstream: FakeUpstream, make_client: MakeClient) -> None:
    client = make_client(upstream.base_url)
    raw = client.chat.completions.with_raw_response.create(
        model="small", extra_headers={"x-request-id": "mine"}, **ASK
    )
    assert upstream.requests[0].headers["x-request-id"] == "mine"
    assert raw.headers["x-request-id"] == "mine"


def test_headers_of_the_raw_response_tell_the_story(upstream: FakeUpstream, make_client: MakeClient) -> None:
    upstream.headers = {"x-baseload-tier": "small", "x-baseload-version": "stable"}
    upstream.script(*[Reply(status=503, headers={"x-baseload-tier": "large"})] * 2)
    raw = make_client(upstream.base_url).chat.completions.with_raw_response.create(model="large", **ASK)
    assert raw.headers["x-baseload-tier-requested"] == "large"
    assert raw.headers["x-baseload-tier-served"] == "small"
    assert raw.headers["x-baseload-downgraded"] == "true"
    attempts = json.loads(raw.headers["x-baseload-attempts"])
    assert [(attempt["model"], attempt["status"]) for attempt in attempts] == [
        ("large", 503),
        ("large", 503),
        ("small", 200),
    ]
    report = resilience_of(raw)
    assert report is not None
    assert report.version == "stable"
    assert resilience_of(raw.parse()) == report


def test_auto_skips_the_tier_that_the_failing_reply_names(
    upstream: FakeUpstream, make_client: MakeClient
) -> None:
    upstream.script(Reply(status=503, headers={"x-baseload-tier": "large"}))
    completion = make_client(upstream.base_url).chat.completions.create(model="auto", **ASK)
    assert models(upstream) == ["auto", "small"]
    report = resilience_of(completion)
    assert report is not None
    assert report.downgraded


def test_report_is_an_attribute_of_every_answer_and_part_of_no_dump(
    upstream: FakeUpstream, make_client: MakeClient
) -> None:
    completion = make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    assert completion.resilience == resilience_of(completion)  # type: ignore[attr-defined]  # set at run time
    assert "resilience" not in completion.model_dump()
    assert "resilience" not in completion.model_dump_json()


def test_answers_of_other_clients_have_no_report(upstream: FakeUpstream) -> None:
    with openai.OpenAI(base_url=upstream.base_url, api_key="x") as client:
        assert resilience_of(client.chat.completions.create(model="small", **ASK)) is None
        raw = client.chat.completions.with_raw_response.create(model="small", **ASK)
        assert resilience_of(raw) is None
        assert resilience_of(raw.http_response) is None
    assert resilience_of("text") is None


def test_any_httpx2_client_finds_the_report_on_its_response(
    upstream: FakeUpstream, clock: VirtualClock
) -> None:
    transport = ResilientTransport(base_url=upstream.base_url, clock=clock, budget=RetryBudget())
    with httpx2.Client(transport=transport) as http:
        reply = http.post(upstream.base_url + "/completions", json={"model": "small"})
    report = resilience_of(reply)
    assert report is not None
    assert report.tier_served == "small"
    assert reply.elapsed.total_seconds() > 0


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_business_errors_are_passed_on_at_once(
    upstream: FakeUpstream, make_client: MakeClient, status: int
) -> None:
    upstream.script(Reply(status=status))
    with pytest.raises(openai.APIStatusError) as raised:
        make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    assert raised.value.status_code == status
    assert len(upstream.requests) == 1


def test_429_waits_for_its_retry_after_and_leaves_the_breaker_closed(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    upstream.script(*[Reply(status=429, headers={"retry-after": "3"}), Reply()] * 10)
    client = make_client(upstream.base_url)
    for _ in range(10):
        client.chat.completions.create(model="small", **ASK)
    assert models(upstream) == ["small"] * 20
    assert clock.slept == [3.0] * 10


def test_429_everywhere_stays_429_and_lists_every_attempt(
    upstream: FakeUpstream, make_client: MakeClient
) -> None:
    upstream.default = Reply(status=429, headers={"retry-after": "3600"})
    upstream.script(DOWN, DOWN)
    with pytest.raises(openai.RateLimitError) as raised:
        make_client(upstream.base_url).chat.completions.create(model="small", **ASK)
    report = resilience_of(raised.value)
    assert report is not None
    assert [(attempt.model, attempt.status) for attempt in report.attempts] == [
        ("small", 503),
        ("small", 503),
        ("large", 429),
    ]
    assert report.tier_served == ""
    assert raised.value.response.headers["retry-after"] == "3600"


def test_nobody_there_is_a_connection_error_that_lists_every_attempt(
    make_client: MakeClient,
) -> None:
    base_url = unused_base_url()
    with pytest.raises(openai.APIConnectionError, match="connect_error") as raised:
        make_client(base_url).chat.completions.create(model="small", **ASK)
    assert isinstance(raised.value.__cause__, AllTargetsFailedError)
    report = resilience_of(raised.value)
    assert report is not None
    assert [attempt.endpoint for attempt in report.attempts] == [base_url, base_url]


def test_silent_target_times_out_and_the_next_one_answers(
    upstream: FakeUpstream, make_client: MakeClient
) -> None:
    upstream.script(Hang())
    client = make_client(upstream.base_url, attempt_timeout_s=0.3)
    assert (
        client.chat.completions.create(model="small", **ASK).choices[0].message.content == "reply from large"
    )
    assert upstream.requests[0].wait_disconnected()


def test_silence_everywhere_is_a_timeout_error(upstream: FakeUpstream, make_client: MakeClient) -> None:
    upstream.default = Hang()
    client = make_client(upstream.base_url, attempt_timeout_s=0.05, max_attempts=1)
    with pytest.raises(openai.APITimeoutError, match=r"small at .*: timeout; large at .*: timeout") as raised:
        client.chat.completions.create(model="small", **ASK)
    assert isinstance(raised.value.__cause__, DeadlineExceededError)


def test_requests_own_timeout_bounds_the_whole_call(upstream: FakeUpstream, make_client: MakeClient) -> None:
    make_client(upstream.base_url).chat.completions.create(model="small", timeout=7.0, **ASK)
    assert upstream.requests[0].headers["x-request-timeout-ms"] == "7000"


def test_dead_target_is_no_longer_asked_once_its_breaker_is_open(
    upstream: FakeUpstream,
    other_upstream: FakeUpstream,
    make_client: MakeClient,
    clock: VirtualClock,
) -> None:
    upstream.default = DOWN
    fallbacks = {"small": [{"model": "large", "base_url": other_upstream.base_url}]}
    client = make_client(upstream.base_url, fallbacks=fallbacks)
    for _ in range(5):
        client.chat.completions.create(model="small", **ASK)
    assert len(upstream.requests) == 10
    completion = client.chat.completions.create(model="small", **ASK)
    assert len(upstream.requests) == 10
    report = resilience_of(completion)
    assert report is not None
    assert [(attempt.sent, attempt.model) for attempt in report.attempts] == [
        (False, "small"),
        (True, "large"),
    ]
    assert "x-retry-attempt" not in other_upstream.requests[-1].headers

    upstream.default = Reply()
    clock.advance(30.0)
    for _ in range(4):
        client.chat.completions.create(model="small", **ASK)
    assert len(upstream.requests) == 14


def test_64_threads_send_exactly_three_probes(
    upstream: FakeUpstream, make_client: MakeClient, clock: VirtualClock
) -> None:
    upstream.default = DOWN
    client = make_client(upstream.base_url, fallbacks={}, max_attempts=1)
    for _ in range(10):
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="small", **ASK)
    clock.advance(30.0)
    upstream.default = Hang()
    barrier = threading.Barrier(64)
    rejected = threading.Semaphore(0)

    def ask() -> None:
        barrier.wait()
        try:
            client.chat.completions.create(model="small", **ASK)
        except openai.APIConnectionError as error:
            if "in flight" in str(error):
                rejected.release()

    threads = [threading.Thread(target=ask) for _ in range(64)]
    for thread in threads:
        thread.start()
    for _ in range(61):
        assert rejected.acquire(timeout=10)
    upstream.wait_for(13)
    probes = len(upstream.requests) - 10
    upstream.stop()
    for thread in threads:
        thread.join(10)
    upstream.start()
    assert probes == 3


def test_retries_are_bounded_by_the_budget(upstream: FakeUpstream, make_client: MakeClient) -> None:
    upstream.default = DOWN
    budget = RetryBudget(BudgetConfig(reserve=10))
    client = make_client(upstream.base_url, budget=budget, breaker={"window": 1000, "minimum_calls": 1000})
    for _ in range(100):
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(model="small", **ASK)
    further = len(upstream.requests) - 100
    assert 10 <= further <= 10 + 0.1 * 100


def test_other_requests_are_retried_and_never_fall_back(
    upstream: FakeUpstream, make_client: MakeClient
) -> None:
    upstream.script(DOWN, path="/v1/models")
    listed = make_client(upstream.base_url).models.list()
    assert [model.id for model in listed.data] == ["small", "large"]
    assert len(upstream.requests) == 2


def test_legacy_completions_fall_back_too(upstream: FakeUpstream, make_client: MakeClient) -> None:
    upstream.script(DOWN, DOWN)
    completion = make_client(upstream.base_url).completions.create(model="small", prompt="hello")
    assert completion.choices[0].text == "reply from large"


def test_body_that_cannot_be_sent_twice_is_sent_once(upstream: FakeUpstream, clock: VirtualClock) -> None:
    upstream.script(DOWN)
    transport = ResilientTransport(base_url=upstream.base_url, clock=clock, budget=RetryBudget())
    with httpx2.Client(transport=transport) as http:
        reply = http.post(upstream.base_url + "/completions", content=iter([b"{}"]))
    assert reply.status_code == 503
    assert len(upstream.requests) == 1


def test_url_outside_the_base_url_keeps_its_host_and_may_change_its_model(
    upstream: FakeUpstream, other_upstream: FakeUpstream, clock: VirtualClock
) -> None:
    other_upstream.script(DOWN, DOWN)
    transport = ResilientTransport(base_url=upstream.base_url, clock=clock, budget=RetryBudget())
    with httpx2.Client(transport=transport) as http:
        reply = http.post(other_upstream.base_url + "/completions", json={"model": "small"})
    assert reply.json()["model"] == "large"
    assert upstream.requests == []


@pytest.mark.parametrize("body", [b"not json", b"[1]", b'{"model": 5}'])
def test_bodies_without_a_model_go_through_as_they_are(
    upstream: FakeUpstream, clock: VirtualClock, body: bytes
) -> None:
    upstream.script(Echo())
    transport = ResilientTransport(base_url=upstream.base_url, clock=clock, budget=RetryBudget())
    with httpx2.Client(transport=transport) as http:
        http.post(upstream.base_url + "/x", content=body, headers={"content-type": "application/json"})
    assert upstream.requests[0].raw_body == body


def test_full_local_pool_is_no_fault_of_the_target(clock: VirtualClock) -> None:
    def full(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.PoolTimeout("no free connection", request=request)

    transport = ResilientTransport(
        base_url="http://x/v1", clock=clock, budget=RetryBudget(), inner=httpx2.MockTransport(full)
    )
    with httpx2.Client(transport=transport) as http:
        for _ in range(20):
            with pytest.raises(httpx2.PoolTimeout):
                http.post("http://x/v1/completions", json={"model": "small"})
    assert set(transport.breakers.states(clock.now()).values()) == {"closed"}
    assert repr(transport) == "<ResilientTransport http://x/v1 <RetryBudget 12.0 of 100.0> breakers=1>"


def test_slow_drip_of_a_reply_is_cut_at_the_attempts_time(clock: VirtualClock) -> None:
    class Drip(httpx2.SyncByteStream):
        def __iter__(self) -> Any:
            for _ in range(10):
                clock.advance(20.0)
                yield b" "

    def reply(_request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "application/json"}, stream=Drip())

    transport = ResilientTransport(
        base_url="http://x/v1", clock=clock, budget=RetryBudget(), inner=httpx2.MockTransport(reply)
    )
    with httpx2.Client(transport=transport) as http, pytest.raises(DeadlineExceededError, match="timeout"):
        http.post("http://x/v1/completions", json={"model": "mine"})


def test_sdk_retries_on_top_are_refused() -> None:
    with pytest.raises(ValueError, match="max_attempts"):
        Client(max_retries=2)


def test_copy_keeps_the_transport_and_its_breakers(upstream: FakeUpstream, make_client: MakeClient) -> None:
    upstream.script(DOWN, DOWN)
    copy = make_client(upstream.base_url).with_options(timeout=9.0, default_headers={"x-team": "a"})
    assert isinstance(copy, Client)
    completion = copy.chat.completions.create(model="small", **ASK)
    assert resilience_of(completion).tier_served == "large"  # type: ignore[union-attr]  # known to be there
    assert upstream.requests[0].headers["x-team"] == "a"
    assert upstream.requests[0].headers["x-request-timeout-ms"] == "9000"
