"""Time as the shells see it; tests put ``baseload_client.testing.VirtualClock`` in its place."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds, and sleeping in them."""

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Blocks the calling thread."""

    async def asleep(self, seconds: float) -> None:
        """Lets other tasks run meanwhile."""


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
