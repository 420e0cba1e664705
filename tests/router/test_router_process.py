"""The router as a process: flags, refusals, signals."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from baseload_client.testing import FakeUpstream, Gate, Reply
from baseload_router.main import main

GRAPH = """\
apiVersion: serving.kserve.io/v1alpha1
kind: InferenceGraph
metadata: {name: chat}
spec:
  nodes:
    root:
      routerType: Switch
      steps:
        - {name: small, nodeName: small, condition: '[@this].#(model=="small")'}
        - {name: large, nodeName: large, condition: '[@this].#(model=="large")'}
        - {name: auto, nodeName: large, condition: '@tier:large'}
        - {name: default, nodeName: small, condition: '@this'}
    small:
      routerType: Splitter
      steps: [{name: stable, serviceUrl: 'http://small-predictor/openai/v1', weight: 100}]
    large:
      routerType: Splitter
      steps: [{name: stable, serviceUrl: 'http://large-predictor/openai/v1', weight: 100}]
"""


class Process:
    """A running router and its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        self.process = process
        self.log = process.stderr
        self.url = ""

    async def logged(self, event: str) -> dict[str, Any]:
        """The next log line of this event."""
        while line := await self.log.readline():
            record: dict[str, Any] = json.loads(line)
            if record["event"] == event:
                return record
        raise AssertionError(f"the router ended without logging {event!r}")


@pytest.fixture
async def start() -> AsyncIterator[Any]:
    """``await start(*flags)`` gives a Process that listens."""
    async with AsyncExitStack() as stack:

        async def run(*flags: str) -> Process:
            command = [sys.executable, "-m", "baseload_router", "--port", "0", *flags]
            process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)

            async def end() -> None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

            stack.push_async_callback(end)
            running = Process(process)
            listening = await running.logged("listening")
            running.url = f"http://127.0.0.1:{listening['port']}"
            return running

        yield run


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.yaml"
    path.write_text(GRAPH)
    return str(path)


def endpoints_file(path: Path, **services: str) -> str:
    listed = {f"{name}-predictor": {"endpoints": [{"url": url}]} for name, url in services.items()}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"version": 1, "services": listed}))
    fresh.rename(path)
    return str(path)


async def test_a_stream_in_flight_outlives_sigterm_and_the_exit_status_is_0(
    start: Any, graph: str, tmp_path: Path
) -> None:
    gate = Gate()
    async with FakeUpstream() as upstream:
        upstream.script(Reply(tokens=["a", "b"], gate=gate, gate_after=1))
        file = endpoints_file(tmp_path / "e.json", small=upstream.url, large=upstream.url)
        router = await start("--graph", graph, "--endpoints", file)
        await router.logged("endpoints file read")
        ask = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
        async with (
            httpx2.AsyncClient(base_url=router.url, trust_env=False) as client,
            client.stream("POST", "/v1/chat/completions", json=ask) as answer,
        ):
            assert answer.headers["x-baseload-tier"] == "small"
            lines = answer.aiter_lines()
            await anext(lines)
            router.process.send_signal(signal.SIGTERM)
            await router.logged("draining")
            gate.open()
            assert [line async for line in lines][-2] == "data: [DONE]"
        assert (await router.logged("stopped"))["connections_cut"] == 0
        assert await router.process.wait() == 0


async def test_the_lame_duck_still_serves_but_is_not_ready(start: Any, graph: str, tmp_path: Path) -> None:
    async with FakeUpstream() as upstream:
        file = endpoints_file(tmp_path / "e.json", small=upstream.url, large=upstream.url)
        router = await start("--graph", graph, "--endpoints", file, "--lame-duck-s", "30")
        await router.logged("endpoints file read")
        async with httpx2.AsyncClient(base_url=router.url, trust_env=False) as client:
            assert (await client.get("/readyz")).status_code == 200
            router.process.send_signal(signal.SIGINT)
            await router.logged("draining")
            assert (await client.get("/readyz")).status_code == 503
            answer = await client.post("/v1/chat/completions", json={"model": "small"})
            assert answer.status_code == 200


async def test_endpoints_change_while_it_runs(start: Any, graph: str, tmp_path: Path) -> None:
    path = tmp_path / "e.json"
    async with FakeUpstream() as first, FakeUpstream() as second:
        file = endpoints_file(path, small=first.url)
        router = await start("--graph", graph, "--endpoints", file)
        await router.logged("endpoints file read")
        async with httpx2.AsyncClient(base_url=router.url, trust_env=False) as client:
            await client.post("/v1/chat/completions", json={"model": "small"})
            endpoints_file(path, small=second.url)
            await router.logged("endpoints file read")
            await client.post("/v1/chat/completions", json={"model": "small"})
        assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_kserves_argument_and_environment_are_taken(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROPAGATE_HEADERS", "Auth*,[")
    async with FakeUpstream() as upstream:
        step = {"name": "a", "serviceUrl": f"{upstream.url}/openai/v1", "weight": 100}
        spec = {"nodes": {"root": {"routerType": "Splitter", "steps": [step]}}, "resources": {}}
        router = await start("--graph-json", json.dumps(spec))
        async with httpx2.AsyncClient(base_url=router.url, trust_env=False) as client:
            assert (await client.get("/readyz")).status_code == 200
            headers = {"authorization": "Bearer x", "cookie": "a=b"}
            await client.post("/v1/completions", json={"model": "m"}, headers=headers)
        assert upstream.requests[0].headers["authorization"] == "Bearer x"
        assert "cookie" not in upstream.requests[0].headers


async def test_a_port_in_use_is_one_clear_line_and_status_2(start: Any, graph: str) -> None:
    router = await start("--graph", graph)
    port = router.url.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "baseload_router", "--graph", graph]
    second = await asyncio.create_subprocess_exec(
        *command, stderr=asyncio.subprocess.PIPE, env={**os.environ, "BASELOAD_ROUTER_PORT": port}
    )
    _, errors = await second.communicate()
    assert second.returncode == 2
    assert errors.decode().startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert errors.count(b"\n") == 1


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> list[str]:
    assert main(flags) == 2
    return capsys.readouterr().err.splitlines()


def test_a_bad_graph_is_refused_with_a_line_a_fault(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text(GRAPH.replace("weight: 100", "weight: 90"))
    lines = refused(capsys, "--graph", str(path))
    assert [line.split(": ", 2)[1] for line in lines] == [
        "spec.nodes.small.steps",
        "spec.nodes.large.steps",
    ]
    assert all("the weights add up to 90" in line for line in lines)


def test_nodes_and_targets_that_the_router_cannot_serve_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = {"nodes": {"root": {"routerType": "Sequence", "steps": [{"serviceName": "a"}]}}}
    lines = refused(capsys, "--graph-json", json.dumps(spec))
    assert "root.routerType: Sequence nodes are not supported yet by this router" in lines[0]
    assert "serviceName 'a' has not been resolved to a URL" in lines[1]


def test_flags_that_contradict_or_make_no_sense_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    both = refused(capsys, "--graph", "a", "--graph-json", "{}")
    assert both == ["give either --graph FILE or --graph-json SPEC"]
    assert refused(capsys) == both
    assert refused(capsys, "--graph", "a", "--port", "70000")[0].startswith("--port: ")
    assert "cannot be read" in refused(capsys, "--graph", "/nonexistent")[0]


def test_a_bad_policy_is_refused_with_the_likely_name(
    capsys: pytest.CaptureFixture[str], graph: str, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("classifier: {min_large_char: 3}\n")
    (line,) = refused(capsys, "--graph", graph, "--policy", str(policy))
    assert line == (f"{policy}:1: classifier.min_large_char: unknown field. Fix: write min_large_chars")
    policy.write_text("{}\n---\n{}\n")
    assert "has 2 documents" in refused(capsys, "--graph", graph, "--policy", str(policy))[0]


def test_help_tells_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    text = capsys.readouterr().out
    for flag in ("--graph", "--graph-json", "--policy", "--endpoints", "--host", "--port"):
        assert flag in text
