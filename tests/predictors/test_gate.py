"""The gate: the batcher's decisions, seen by waiting tasks."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from baseload_predictors.core.batcher import BatchLimits
from baseload_predictors.errors import QueueFullError
from baseload_predictors.gate import Gate
from baseload_predictors.metrics import PredictorMetrics


def make_gate(*, slots: int = 1, max_queue: int = 2) -> tuple[Gate, CollectorRegistry]:
    registry = CollectorRegistry()
    limits = BatchLimits(slots=slots, max_batch_size=4, max_wait=0.001, max_queue=max_queue)
    return Gate(limits, PredictorMetrics(registry)), registry


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_second_request_enters_when_the_first_leaves() -> None:
    gate, _ = make_gate()
    first = await gate.enter()
    second = asyncio.create_task(gate.enter())
    await settle()
    assert not second.done()
    first.leave()
    (await second).leave()
    assert gate.idle


async def test_leaving_twice_frees_one_slot() -> None:
    gate, registry = make_gate(slots=2)
    first, second = await gate.enter(), await gate.enter()
    first.leave()
    first.leave()
    assert registry.get_sample_value("baseload_requests_running") == 1
    second.leave()


async def test_a_dropped_ticket_gives_its_slot_back() -> None:
    gate, _ = make_gate()
    await gate.enter()
    await settle()
    assert gate.idle


async def test_a_full_queue_is_429_with_retry_after_and_is_counted() -> None:
    gate, registry = make_gate(max_queue=1)
    held = await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await settle()
    with pytest.raises(QueueFullError) as refused:
        await gate.enter()
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
    assert registry.get_sample_value("baseload_requests_refused_total", {"reason": "queue_full"}) == 1
    held.leave()
    (await waiting).leave()


async def test_a_cancelled_waiter_leaves_its_place() -> None:
    gate, registry = make_gate()
    held = await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert registry.get_sample_value("baseload_requests_waiting") == 0
    held.leave()
    assert gate.idle


async def test_cancelled_in_the_moment_of_release_it_frees_the_slot() -> None:
    gate, _ = make_gate()
    held = await gate.enter()
    waiting = asyncio.create_task(gate.enter())
    await settle()
    held.leave()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert gate.idle


async def test_max_wait_releases_a_part_of_a_group() -> None:
    gate, registry = make_gate(slots=2, max_queue=4)
    held = [await gate.enter(), await gate.enter()]
    waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
    await settle()
    held[0].leave()
    done, _ = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    labels = {"reason": "max wait"}
    assert registry.get_sample_value("baseload_batch_size_count", labels) == 1
    held[1].leave()
    while not all(task.done() for task in waiting):
        for task in waiting:
            if task.done():
                task.result().leave()
        await asyncio.sleep(0.001)
