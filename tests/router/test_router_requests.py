"""Requests through a running router: where they go, with which headers, and how errors look."""

import asyncio
import json
from typing import Any

import pytest

from baseload_client.testing import CloseBeforeReply, Echo, FakeUpstream, Hang, Reply
from baseload_router.core.policy import Policy


@pytest.mark.parametrize(
    ("model", "content", "tier"),
    [
        ("small", "x" * 900, "small"),
        ("large", "hi", "large"),
        ("auto", "What is the capital of France?", "small"),
        ("auto", "x" * 500, "large"),
        ("auto", "Analyze this sentence", "large"),
        ("auto", "请写一段代码", "large"),
    ],
)
async def test_a_request_is_served_by_its_tier(router: Any, model: str, content: str, tier: str) -> None:
    answer = await router.chat(model, content=content)
    assert answer.status_code == 200
    assert answer.headers["x-baseload-tier"] == tier
    assert answer.headers["x-baseload-version"] == "stable"
    assert answer.json()["choices"][0]["message"]["content"] == f"reply from {model}"
    assert (
        await router.metric("baseload_router_requests_total", tier=tier, version="stable", code="200") == 1.0
    )


async def test_the_body_goes_on_byte_for_byte_under_the_base(router: Any, small: FakeUpstream) -> None:
    body = b'{ "model" :"small", "unknown":[1.50,"\\u00e9"],\n"messages":[] }'
    answer = await router.client.post("/openai/v1/completions?trace=1", content=body)
    assert answer.status_code == 200
    (seen,) = small.requests
    assert (seen.method, seen.path, seen.raw_body) == ("POST", "/openai/v1/completions?trace=1", body)
    assert seen.headers["host"] == f"127.0.0.1:{small.port}"
    assert answer.headers["x-baseload-endpoint"] == f"127.0.0.1:{small.port}"


async def test_headers_pass_but_for_private_and_hop_by_hop_ones(router: Any, small: FakeUpstream) -> None:
    small.script(Reply(headers={"x-up": "1", "x-baseload-tier": "forged"}))
    sent = {
        "authorization": "Bearer secret",
        "cookie": "a=b",
        "traceparent": "00-abc",
        "x-request-timeout-ms": "500",
        "x-request-id": "mine",
        "te": "trailers",
    }
    answer = await router.chat(headers=sent)
    seen = small.requests[0].headers
    assert not {"authorization", "cookie", "te"} & seen.keys()
    assert seen["traceparent"] == "00-abc"
    assert seen["x-request-timeout-ms"] == "500"
    assert seen["x-request-id"] == answer.headers["x-request-id"] == "mine"
    assert answer.headers["x-up"] == "1"
    assert answer.headers.get_list("x-baseload-tier") == ["small"]


async def test_the_policy_lets_private_headers_pass(start_router: Any, small: FakeUpstream) -> None:
    router = await start_router(
        {"small-predictor": [small.url]}, policy=Policy(forward_headers=["authorization"])
    )
    await router.chat(headers={"authorization": "Bearer x", "cookie": "a=b"})
    assert small.requests[0].headers["authorization"] == "Bearer x"
    assert "cookie" not in small.requests[0].headers


async def test_each_request_without_an_id_gets_one_of_its_own(router: Any, small: FakeUpstream) -> None:
    ids = [(await router.chat()).headers["x-request-id"] for _ in range(2)]
    assert len(set(ids)) == 2
    assert [request.headers["x-request-id"] for request in small.requests] == ids


@pytest.mark.parametrize(
    ("asked", "content", "status", "code"),
    [
        ("POST /v1/chat/completions", b'{"model": "gpt-4"}', 404, "no_route"),
        ("POST /v1/chat/completions", b'{"model": ', 400, "invalid_json"),
        ("POST /v1/chat/completions", b"", 400, "invalid_json"),
        ("POST /chat", b'{"model": "small"}', 404, "unknown_path"),
        ("POST /v1/../metrics", b'{"model": "small"}', 404, "unknown_path"),
        ("GET /v1/chat/completions", b"", 405, "method_not_allowed"),
        ("GET /", b"", 404, "unknown_path"),
    ],
)
async def test_what_cannot_be_routed_is_answered_in_openais_shape(
    router: Any, asked: str, content: bytes, status: int, code: str
) -> None:
    connection = await router.connect()
    head = f"{asked} HTTP/1.1\r\nhost: a\r\ncontent-length: {len(content)}\r\n\r\n"
    connection.send(head.encode() + content)
    seen, headers, body = await connection.response()
    assert seen == status
    error = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "code", "param"}
    assert (error["code"], error["type"], error["param"]) == (code, "invalid_request_error", None)
    assert headers["x-request-id"]
    assert headers.get("allow") == ("POST" if status == 405 else None)


async def test_a_body_over_the_limit_is_413_and_the_client_can_read_it(
    start_router: Any, small: FakeUpstream
) -> None:
    router = await start_router({"small-predictor": [small.url]}, policy=Policy(max_body_bytes=2000))
    answer = await router.chat(content="x" * 3_000_000)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"
    assert small.requests == []


async def test_models_of_all_services_are_listed_once_each_in_order(router: Any, large: FakeUpstream) -> None:
    large.models = ("large", "small")
    for path in ("/v1/models", "/openai/v1/models"):
        answer = await router.client.get(path)
        assert answer.status_code == 200
        assert [model["id"] for model in answer.json()["data"]] == ["small", "large"]


async def test_models_of_a_service_that_fails_are_left_out(
    router: Any, small: FakeUpstream, large: FakeUpstream
) -> None:
    faults = (Reply(status=500), Reply(body="no json"), CloseBeforeReply())
    small.script(*faults, path="/openai/v1/models")
    for _ in faults:
        assert [model["id"] for model in (await router.client.get("/v1/models")).json()["data"]] == ["large"]
    await asyncio.to_thread(small.stop)
    large.script(Reply(body=b"x" * 3_000_000), path="/openai/v1/models")
    answer = await router.client.get("/v1/models")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    await asyncio.to_thread(small.start)
    router.set_endpoints({"small-predictor": [small.url], "large-predictor": []})
    assert [model["id"] for model in (await router.client.get("/v1/models")).json()["data"]] == ["small"]


async def test_models_are_not_waited_for_when_the_client_has_left(router: Any, small: FakeUpstream) -> None:
    small.script(Hang(), path="/openai/v1/models")
    asked = asyncio.create_task(router.client.get("/v1/models"))
    (request,) = await small.arrived(1)
    asked.cancel()
    assert await request.until_disconnected()


async def test_readiness_follows_endpoints_and_draining(router: Any, small: FakeUpstream) -> None:
    assert (await router.client.get("/readyz")).status_code == 200
    router.set_endpoints({"small-predictor": [small.url], "large-predictor": []})
    assert (await router.client.get("/readyz")).status_code == 200, "one tier down leaves the other"
    router.set_endpoints({"small-predictor": [], "large-predictor": []})
    answer = await router.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "no service has a ready endpoint"
    router.set_endpoints({"small-predictor": [small.url]})
    router.router.draining = True
    answer = await router.client.get("/readyz")
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "the router is draining")


async def test_metrics_are_bounded_by_graph_and_endpoints(router: Any, small: FakeUpstream) -> None:
    for model in ("small", "a", "b"):
        await router.chat(model)
    assert await router.metric("baseload_router_requests_total", tier="", version="", code="404") == 2.0
    name = "baseload_router_time_to_first_token_seconds_count"
    assert await router.metric(name, tier="small", version="stable") == 1.0
    labels = {"service": "small-predictor", "endpoint": f"127.0.0.1:{small.port}"}
    assert f'endpoint="{labels["endpoint"]}"' in (await router.client.get("/metrics")).text
    assert await router.metric("baseload_router_in_flight_requests", **labels) == 0.0


def predict_graph(url: str) -> dict[str, Any]:
    step = {"name": "a", "condition": "instances", "serviceUrl": f"{url}/v1/chat/completions"}
    return {"root": {"routerType": "Switch", "steps": [step]}}


async def test_a_fixed_url_is_called_with_post_whatever_was_asked(
    start_router: Any, small: FakeUpstream
) -> None:
    router = await start_router(None, nodes=predict_graph(small.url))
    small.script(Echo(), Echo(), Reply(status=429, body={"detail": "busy"}))
    for method, path in (("POST", "/"), ("PUT", "/v1/models/a:predict?x=1")):
        answer = await router.client.request(method, path, content=b'{"instances": []}')
        assert answer.json()["method"] == "POST"
        assert answer.json()["path"] == "/v1/chat/completions"
        assert answer.json()["headers"]["content-type"] == "application/json"
    answer = await router.client.post("/", content=b'{"instances": []}')
    assert (answer.status_code, answer.json()) == (429, {"detail": "busy"})


async def test_without_openai_endpoints_errors_are_in_kserves_words(
    start_router: Any, small: FakeUpstream
) -> None:
    router = await start_router(None, nodes=predict_graph(small.url))
    for content in (b'{"other": 1}', b"plain words", b""):
        answer = await router.client.post("/", content=content)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == {
            "error": "Failed to process request",
            "cause": "None of the routes matched with the switch condition",
        }
    assert (await router.client.get("/v1/models")).status_code == 404
    assert (await router.client.get("/readyz")).status_code == 200


async def test_a_mixed_graph_serves_both_kinds_and_refuses_what_a_base_does_not_have(
    start_router: Any, small: FakeUpstream
) -> None:
    nodes = predict_graph(small.url)
    nodes["root"]["steps"].append({"name": "b", "condition": "model", "serviceUrl": f"{small.url}/openai/v1"})
    router = await start_router(None, nodes=nodes)
    assert (await router.client.post("/any", content=b'{"instances": []}')).status_code == 200
    assert (await router.chat()).status_code == 200
    answer = await router.client.post("/any", content=b'{"model": "x"}')
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_path")


async def test_a_head_request_has_no_body(start_router: Any, small: FakeUpstream) -> None:
    router = await start_router(None, nodes={"root": predict_graph(small.url)["root"]})
    connection = await router.connect()
    connection.send(b"HEAD /readyz HTTP/1.1\r\nhost: a\r\n\r\nHEAD / HTTP/1.1\r\nhost: a\r\n")
    connection.send(b'content-length: 17\r\n\r\n{"instances": []}GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n')
    assert "content-length: 18" in await connection.head()
    assert "200 OK" in await connection.head()
    status, _, body = await connection.response()
    assert (status, body) == (200, b'{"status":"ready"}')
