"""What router and client add to a small, plain chat call, over loopback to an upstream that answers at once.

    direct          an HTTP client to the upstream
    router          the same client through the router
    openai + router the OpenAI SDK through the router
    client + router Baseload's client through the router

Each figure is the median latency of one caller's sequential calls. The upstream and the router are
processes of their own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

import httpx2
from _harness import arguments, conclude, run
from openai import OpenAI

from baseload_client import Client
from baseload_local.process import free_port

UPSTREAM = """
import sys, threading
from baseload_client.testing import FakeUpstream
FakeUpstream(models=["small"], port=int(sys.argv[1])).start()
threading.Event().wait()
"""
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
START_LIMIT_S = 30.0


def main() -> None:
    options = arguments(__doc__ or "")
    calls = 50 if options.quick else 500
    with ExitStack() as cleanup:
        upstream, router = free_port(), free_port()
        cleanup.enter_context(process(sys.executable, "-c", UPSTREAM, str(upstream)))
        cleanup.enter_context(_router(upstream, router))
        http = cleanup.enter_context(httpx2.Client())
        urls = {
            name: f"http://127.0.0.1:{port}/v1" for name, port in (("upstream", upstream), ("router", router))
        }
        wait_for(http, f"{urls['upstream']}/models")
        wait_for(http, f"{urls['router']}/models")
        sdk = cleanup.enter_context(OpenAI(base_url=urls["router"], api_key="none", max_retries=0))
        client = cleanup.enter_context(Client(base_url=urls["router"], api_key="none"))
        subjects = {
            "direct": lambda: timed(calls, lambda: post(http, urls["upstream"])),
            "router": lambda: timed(calls, lambda: post(http, urls["router"])),
            "openai + router": lambda: timed(calls, lambda: chat(sdk)),
            "client + router": lambda: timed(calls, lambda: chat(client)),
        }
        report = run(
            subjects, "us", rounds=3 if options.quick and not options.check else 5, seed=options.seed
        )
    conclude(report, "direct", (), options)


def timed(calls: int, call: Callable[[], None]) -> float:
    """Median latency of ``calls`` calls, microseconds."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return median(times) * 1e6


def post(http: httpx2.Client, base_url: str) -> None:
    body = {"model": "small", "messages": MESSAGES}
    http.post(f"{base_url}/chat/completions", json=body).raise_for_status()


def chat(client: OpenAI) -> None:
    client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": MESSAGES[0]["content"]}]
    )


@contextmanager
def process(*command: str) -> Iterator[None]:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.terminate()
        child.wait()


@contextmanager
def _router(upstream: int, port: int) -> Iterator[None]:
    step = {"name": "stable", "serviceUrl": f"http://127.0.0.1:{upstream}/openai/v1", "weight": 100}
    spec = {"nodes": {"root": {"routerType": "Splitter", "steps": [step]}}}
    with process(sys.executable, "-m", "baseload_router", "--graph-json", json.dumps(spec), f"--port={port}"):
        yield


def wait_for(http: httpx2.Client, url: str) -> None:
    give_up = time.monotonic() + START_LIMIT_S
    while True:
        try:
            if http.get(url).status_code == 200:
                return
        except httpx2.TransportError:
            if time.monotonic() > give_up:
                raise
        time.sleep(0.05)


if __name__ == "__main__":
    main()
