"""The fake upstream, seen by an unmodified OpenAI SDK and by plain HTTP."""

import socket

import httpx2
import openai
import pytest

from baseload_client.testing import (
    CloseBeforeReply,
    CutAfter,
    Echo,
    FakeUpstream,
    Gate,
    Hang,
    Reply,
)


def post(upstream: FakeUpstream, path: str = "/v1/chat/completions", **body: object) -> httpx2.Response:
    return httpx2.post(upstream.url + path, json={"model": "small", "messages": [], **body})


@pytest.mark.parametrize("base", ["/v1", "/openai/v1"])
def test_unmodified_sdk_gets_well_formed_answers(upstream: FakeUpstream, base: str) -> None:
    with openai.OpenAI(base_url=upstream.url + base, api_key="x", max_retries=0) as client:
        completion = client.chat.completions.create(model="m", messages=[])
        assert completion.model == "m"
        assert completion.usage is not None
        assert completion.usage.total_tokens == 4
        assert client.completions.create(model="m", prompt="p").choices[0].text == "reply from m"
        assert [model.id for model in client.models.list()] == ["small", "large"]
        chunks = list(client.completions.create(model="m", prompt="p", stream=True))
        assert [chunk.choices[0].text for chunk in chunks] == ["reply", " from ", "m", ""]


def test_usage_is_streamed_where_it_is_asked_for(upstream: FakeUpstream) -> None:
    upstream.script(Reply(tokens=["a", "b"]))
    with openai.OpenAI(base_url=upstream.base_url, api_key="x") as client:
        *_, last = client.chat.completions.create(
            model="m", messages=[], stream=True, stream_options={"include_usage": True}
        )
    assert last.usage is not None
    assert last.usage.completion_tokens == 2


def test_script_is_used_up_one_post_at_a_time_and_then_the_default_answers(upstream: FakeUpstream) -> None:
    upstream.script(Reply(status=503, headers={"retry-after": "1"}), Reply(status=599))
    assert httpx2.get(upstream.base_url + "/models").status_code == 200
    first, second, third = (post(upstream) for _ in range(3))
    assert (first.status_code, first.headers["retry-after"]) == (503, "1")
    assert first.json()["error"]["code"] == 503
    assert (second.status_code, third.status_code) == (599, 200)
    upstream.default = Reply(body="plain")
    assert post(upstream).text == "plain"


def test_script_for_a_path_leaves_other_paths_alone(upstream: FakeUpstream) -> None:
    upstream.script(Reply(status=500), path="/v1/models")
    assert post(upstream).status_code == 200
    assert httpx2.get(upstream.base_url + "/models?limit=1").status_code == 500


def test_unknown_path_is_404_in_openais_shape(upstream: FakeUpstream) -> None:
    reply = httpx2.get(upstream.url + "/nowhere")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, 404)


def test_echo_and_the_record_tell_what_arrived(upstream: FakeUpstream) -> None:
    upstream.headers = {"x-baseload-tier": "small"}
    upstream.script(Echo())
    reply = post(upstream, path="/v1/completions?x=1", stream=True)
    seen = upstream.requests[0]
    assert reply.json() == {
        "method": "POST",
        "path": "/v1/completions?x=1",
        "headers": dict(seen.headers),
        "body": {"model": "small", "messages": [], "stream": True},
    }
    assert (seen.model, seen.streams, reply.headers["x-baseload-tier"]) == ("small", True, "small")


def test_body_in_chunks_and_body_that_is_no_json_are_recorded(upstream: FakeUpstream) -> None:
    httpx2.post(upstream.base_url + "/completions", content=iter([b"ab", b"c"]))
    assert (upstream.requests[0].raw_body, upstream.requests[0].body) == (b"abc", None)
    assert (upstream.requests[0].model, upstream.requests[0].streams) == ("", False)


def test_gate_holds_the_reply_back(upstream: FakeUpstream) -> None:
    before, between = Gate(), Gate()
    upstream.script(Reply(gate=before), Reply(tokens=["a", "b"], gate=between, gate_after=1))
    with pytest.raises(httpx2.ReadTimeout), httpx2.Client(timeout=httpx2.Timeout(5, read=0.05)) as http:
        http.post(upstream.base_url + "/completions", json={})
    assert upstream.requests[0].wait_disconnected()
    before.open()
    before.open()
    stream = httpx2.stream("POST", upstream.base_url + "/completions", json={"stream": True})
    with stream as reply:
        lines = reply.iter_lines()
        assert '"text": "a"' in next(lines)
        between.open()
        assert "data: [DONE]" in list(lines)


@pytest.mark.parametrize("clean", [True, False])
def test_cut_ends_the_stream_with_or_without_a_proper_end(upstream: FakeUpstream, clean: bool) -> None:
    upstream.script(CutAfter(events=2, clean=clean))
    lines: list[str] = []
    with httpx2.stream("POST", upstream.base_url + "/completions", json={"stream": True}) as reply:
        if clean:
            lines.extend(reply.iter_lines())
        else:
            with pytest.raises(httpx2.RemoteProtocolError):
                lines.extend(reply.iter_lines())
    assert upstream.requests[0].answered.wait(5)
    assert len([line for line in lines if line]) == 2
    assert not upstream.requests[0].disconnected.is_set()


def test_close_before_reply_sends_no_byte(upstream: FakeUpstream) -> None:
    upstream.script(CloseBeforeReply())
    with pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
        post(upstream)


def test_hang_lasts_until_the_client_leaves_and_its_leaving_is_recorded(upstream: FakeUpstream) -> None:
    upstream.script(Hang(after_events=1))
    with httpx2.stream("POST", upstream.base_url + "/completions", json={"stream": True}) as reply:
        assert next(reply.iter_lines()).startswith("data:")
    seen = upstream.requests[0]
    assert seen.wait_disconnected()
    assert seen.disconnected_at is not None
    assert seen.disconnected_at >= seen.received_at
    assert not seen.answered.is_set()


def test_stopped_upstream_refuses_connections_and_starts_again_on_its_port() -> None:
    with FakeUpstream() as upstream:
        port = upstream.port
    with pytest.raises(httpx2.ConnectError):
        post(upstream)
    with FakeUpstream(port=port) as again:
        assert post(again).status_code == 200
        with pytest.raises(OSError, match="in use"):
            FakeUpstream(port=port).start()


async def test_async_use_and_waiting_for_requests() -> None:
    async with FakeUpstream() as upstream, httpx2.AsyncClient() as http:
        await http.post(upstream.base_url + "/completions", json={})
        assert len(await upstream.arrived(1)) == 1
        with pytest.raises(TimeoutError, match="1 of 2 requests arrived"):
            await upstream.arrived(2, timeout=0.01)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"POST / HTTP/1.1\r\ncontent-length: 1099511627776\r\n\r\n", b"over the limit"),
        (b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n", b"invalid literal"),
        (b"nonsense\r\n\r\n", b"not enough values"),
    ],
)
def test_unreadable_request_gets_a_400_that_says_why(
    upstream: FakeUpstream, head: bytes, reason: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", upstream.port), timeout=5) as connection:
        connection.sendall(head)
        reply = b"".join(iter(lambda: connection.recv(4096), b""))
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert reason in reply
    assert upstream.requests == []
