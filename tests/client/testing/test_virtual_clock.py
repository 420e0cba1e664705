"""The clock that tests hold in their hands."""

import asyncio
import threading

import pytest

from baseload_client.clock import SystemClock
from baseload_client.testing import VirtualClock


def test_sleep_jumps_to_its_end() -> None:
    clock = VirtualClock(start=5.0)
    clock.sleep(2.0)
    clock.sleep(-1.0)
    assert (clock.now(), clock.slept) == (7.0, [2.0, -1.0])


async def test_async_sleep_jumps_and_lets_others_run() -> None:
    clock = VirtualClock(start=0.0)
    order: list[str] = []

    async def sleeper() -> None:
        await clock.asleep(3.0)
        order.append("slept")

    task = asyncio.create_task(sleeper())
    await asyncio.sleep(0)
    order.append("other")
    await task
    assert (order, clock.now()) == (["other", "slept"], 3.0)


async def test_without_autojump_sleepers_wake_exactly_when_their_time_has_come() -> None:
    clock = VirtualClock(start=0.0, autojump=False)
    early, late = (asyncio.create_task(clock.asleep(seconds)) for seconds in (1.0, 2.0))
    await asyncio.sleep(0)
    clock.advance(0.5)
    assert clock.sleeping == 2
    clock.advance(0.5)
    await early
    assert not late.done()
    late.cancel()
    clock.advance(1.0)
    assert clock.sleeping == 0


def test_without_autojump_a_thread_waits_for_advance() -> None:
    clock = VirtualClock(autojump=False)
    thread = threading.Thread(target=clock.sleep, args=(1.0,))
    thread.start()
    while not clock.sleeping:
        pass
    clock.advance(1.0)
    thread.join(5)
    assert not thread.is_alive()


def test_it_cannot_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        VirtualClock().advance(-1.0)


async def test_system_clock_moves_by_itself_and_sleeps() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.sleep(0.0)
    await clock.asleep(0.0)
    assert clock.now() >= before
