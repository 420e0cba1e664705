"""The whole stack with real vLLM: what the README promises, in the order in which a user would see it.

One stack serves all tests, since a start takes a minute or two; they run in the order of this file.
"""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from baseload_client import Client, ClientPolicy, resilience_of
from baseload_local.process import free_port
from baseload_local.state import StateFolder
from support.stack import UP_LIMIT_S, RunningStack, baseload, run_stack
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.store]

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
HARD = [{"role": "user", "content": "Analyze step by step why the sky is blue."}]
CHINESE = [{"role": "user", "content": "请分析天空为什么是蓝色的"}]
LONG = [{"role": "user", "content": "Tell me about the weather today. " * 20}]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    yield from run_stack(tmp_path_factory.mktemp("stack"), free_port())


@pytest.fixture
def sdk(stack: RunningStack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stack.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def tier_of(sdk: openai.OpenAI, model: str, messages: list[dict[str, str]]) -> str:
    raw = sdk.chat.completions.with_raw_response.create(model=model, messages=messages, max_tokens=2)  # type: ignore[call-overload]  # plain dicts
    tier: str = raw.headers["x-baseload-tier"]
    return tier


def test_up_prints_question_answer_tier_and_times(stack: RunningStack) -> None:
    shown = stack.output.read_text()
    assert "What is the capital of France?" in shown
    assert "Paris" in shown
    assert "served by tier small (model small)" in shown
    for phase in ("restore", "imports", "load", "warm-up"):
        assert phase in shown
    assert "tokens/s" in shown
    assert stack.url in shown


@pytest.mark.parametrize("model", ["auto", "small", "large"])
def test_the_openai_sdk_gets_paris(sdk: openai.OpenAI, model: str) -> None:
    reply = sdk.chat.completions.create(model=model, messages=CAPITAL, temperature=0, max_tokens=20)  # type: ignore[call-overload]
    assert "Paris" in reply.choices[0].message.content
    assert reply.model == {"auto": "small"}.get(model, model)
    assert reply.usage.completion_tokens > 3


@pytest.mark.parametrize("model", ["auto", "small", "large"])
def test_the_openai_sdk_streams_paris(sdk: openai.OpenAI, model: str) -> None:
    options = {"include_usage": True}
    chunks = list(
        sdk.chat.completions.create(  # type: ignore[call-overload]
            model=model, messages=CAPITAL, temperature=0, max_tokens=20, stream=True, stream_options=options
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Paris" in text
    assert len(chunks) > 5
    assert chunks[-1].usage.total_tokens > 10


@pytest.mark.parametrize(
    ("messages", "tier"), [(CAPITAL, "small"), (HARD, "large"), (CHINESE, "large"), (LONG, "large")]
)
def test_auto_sends_hard_and_long_prompts_to_large(
    sdk: openai.OpenAI, messages: list[dict[str, str]], tier: str
) -> None:
    assert tier_of(sdk, "auto", messages) == tier


def test_what_vllm_offers_comes_along(sdk: openai.OpenAI) -> None:
    reply = sdk.chat.completions.create(  # type: ignore[call-overload]
        model="small",
        messages=CAPITAL,
        temperature=0.5,
        max_tokens=8,
        n=2,
        logprobs=True,
        top_logprobs=2,
        stop=["."],
    )
    assert len(reply.choices) == 2
    assert all(len(choice.logprobs.content[0].top_logprobs) == 2 for choice in reply.choices)
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 10}},
        "required": ["city"],
    }
    structured = sdk.chat.completions.create(  # type: ignore[call-overload]
        model="large",
        messages=CAPITAL,
        max_tokens=60,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": schema}},
    )
    assert structured.choices[0].message.content.lstrip().startswith("{")
    completion = sdk.completions.create(
        model="small", prompt="The capital of France is", max_tokens=3, temperature=0
    )
    assert completion.choices[0].text


def test_models_are_listed(sdk: openai.OpenAI) -> None:
    assert {model.id for model in sdk.models.list()} == {"auto", "small", "large"}


def test_errors_are_openais(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="nope"):
        sdk.chat.completions.create(model="nope", messages=CAPITAL)  # type: ignore[call-overload]
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.completions.create(model="small", prompt="word " * 2000)
    assert refused.value.code == "context_length_exceeded"


async def test_a_client_that_leaves_stops_the_engine(stack: RunningStack) -> None:
    predictor = stack.part("large-0")["url"]

    async def running() -> float:
        async with httpx2.AsyncClient() as client:
            text = (await client.get(f"{predictor}/metrics")).text
        families = {family.name: family for family in text_string_to_metric_families(text)}
        return max(sample.value for sample in families["vllm:num_requests_running"].samples)

    body = {"model": "large", "messages": HARD, "max_tokens": 1500, "stream": True, "ignore_eos": True}
    async with httpx2.AsyncClient() as client:
        async with client.stream("POST", f"{stack.url}/v1/chat/completions", json=body) as reply:
            lines = reply.aiter_lines()
            await anext(lines)
            assert await running() == 1
        async with asyncio.timeout(10):
            while await running() > 0:  # noqa: ASYNC110 - a gauge to scrape, no event
                await asyncio.sleep(0.1)


def test_status_shows_what_runs(stack: RunningStack) -> None:
    shown = baseload("status", f"--state={stack.state}")
    assert shown.returncode == 0
    for part in ("object-store", "small-0", "large-0", "router"):
        assert part in shown.stdout


def test_a_second_stack_is_told_of_the_first(stack: RunningStack) -> None:
    refused = baseload("up", f"--state={stack.state}", f"--port={free_port()}")
    assert refused.returncode == 1
    assert "already runs" in refused.stderr
    taken = baseload("up", f"--state={stack.state}-other", f"--port={stack.port}")
    assert taken.returncode == 1
    assert f"cannot listen on 127.0.0.1:{stack.port}" in taken.stderr
    assert not Path(f"{stack.state}-other").exists()


def test_snapshots_of_the_running_stack_are_listed(stack: RunningStack) -> None:
    listed = baseload("snapshot", "ls", "s3://baseload", f"--state={stack.state}")
    assert listed.stdout.startswith("smollm2-135m:latest  blake3:")
    wrong = {
        "AWS_ENDPOINT_URL": stack.part("object-store")["url"],
        "AWS_ACCESS_KEY_ID": StateFolder(stack.state).credentials().access_key,
        "AWS_SECRET_ACCESS_KEY": "wrong",
    }
    refused = baseload("snapshot", "ls", "s3://baseload", env=wrong)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "check AWS_SECRET_ACCESS_KEY" in refused.stderr
    assert "Traceback" not in refused.stderr


async def test_a_killed_predictor_is_survived_by_fallback_and_restarted(stack: RunningStack) -> None:
    killed = stack.part("small-0")["pid"]
    engines = psutil.Process(killed).children(recursive=True)
    os.kill(killed, signal.SIGKILL)
    with Client(base_url=f"{stack.url}/v1", api_key="none", policy=ClientPolicy()) as client:
        for _ in range(3):
            reply = client.chat.completions.create(
                model="small", messages=CAPITAL, temperature=0, max_tokens=20
            )  # type: ignore[call-overload]
            told = resilience_of(reply)
            assert "Paris" in reply.choices[0].message.content
            assert (told.tier_requested, told.tier_served, reply.model) == ("small", "large", "large")
            assert told.attempts[0].status in {502, 503}
        await until(
            lambda: stack.part("small-0")["ready"] and stack.part("small-0")["restarts"] == 1, limit=300
        )
        assert not any(engine.is_running() and engine.status() != "zombie" for engine in engines)
        reply = client.with_options(timeout=60).chat.completions.create(  # type: ignore[call-overload]
            model="small", messages=CAPITAL, temperature=0, max_tokens=20
        )
        assert reply.choices[0].message.content


def test_ctrl_c_leaves_no_process(stack: RunningStack) -> None:
    processes = [*stack.processes(), psutil.Process(stack.process.pid)]
    assert len(processes) >= 7
    assert stack.interrupt() == 0
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []
    assert "stopped; no process is left" in stack.output.read_text()
    assert not (stack.state / "stack.json").exists()
    assert baseload("status", f"--state={stack.state}").returncode == 1


def test_detached_it_returns_once_it_answers_and_down_ends_it(stack: RunningStack) -> None:
    """A second start from the same state folder: the snapshot and the restored weights are still there."""
    state = f"--state={stack.state}"
    started = baseload("up", "--detach", state, f"--port={stack.port}", limit=UP_LIMIT_S)
    assert started.returncode == 0, started.stdout + started.stderr
    assert "Paris" in started.stdout
    assert "convert" not in started.stdout
    processes = [psutil.Process(part["pid"]) for part in stack.record()["processes"]]
    assert "small-0" in baseload("status", state).stdout
    assert "Paris" in baseload("ask", f"--url={stack.url}", "--model=large").stdout
    stopped = baseload("down", state)
    assert stopped.returncode == 0, stopped.stderr
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []


async def test_ctrl_c_while_engines_load_leaves_no_process(stack: RunningStack) -> None:
    run = run_stack(stack.state.parent, free_port(), "start 2 predictors")
    loading = next(run)
    log = stack.state / "logs" / "small-0.log"
    await until(lambda: log.exists() and "Initializing a V1 LLM engine" in log.read_text(), limit=300)
    processes = [*loading.processes(), psutil.Process(loading.process.pid)]
    assert loading.interrupt() == 130
    _, alive = psutil.wait_procs(processes, timeout=10)
    assert alive == []
    run.close()
