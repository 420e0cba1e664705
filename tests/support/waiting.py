"""Waiting for a condition, with a bound, where there is nothing to await."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], limit: float = 20.0) -> None:
    """Return once ``condition()`` holds. Raises TimeoutError after ``limit`` seconds."""
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - what is watched is a process or a counter: no event tells of it
            await asyncio.sleep(0.01)
