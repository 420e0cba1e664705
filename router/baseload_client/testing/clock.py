"""A clock that moves only when a test says so, so that no test waits or depends on the machine's speed."""

import asyncio
import heapq
import threading
from concurrent.futures import Future


class VirtualClock:
    """Monotonic seconds under the test's control; it stands wherever a ``Clock`` is taken.

    By default every sleep jumps the clock to its own end and returns at once (``autojump``). With
    ``autojump=False`` sleepers wait until ``advance`` has moved the clock past their end, which lets a
    test look at what happens before, at and after a moment. Safe to share between threads.
    """

    def __init__(self, start: float = 1000.0, *, autojump: bool = True) -> None:
        self._now = start
        self._autojump = autojump
        self._lock = threading.Lock()
        self._sleepers: list[tuple[float, int, Future[None]]] = []
        self._slept: list[float] = []

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        return self._now

    @property
    def slept(self) -> list[float]:
        """The length in seconds of every sleep asked for so far, oldest first."""
        return list(self._slept)

    @property
    def sleeping(self) -> int:
        """How many sleepers wait for ``advance``."""
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Moves the clock forward and wakes every sleeper whose end has come."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._move_to(self._now + seconds)

    def sleep(self, seconds: float) -> None:
        """Sleeps in virtual time. Without autojump this blocks the thread until ``advance``."""
        self._begin(seconds).result()

    async def asleep(self, seconds: float) -> None:
        """Sleeps in virtual time and lets other tasks run, like ``asyncio.sleep``."""
        woken = self._begin(seconds)
        await asyncio.sleep(0)
        # Shielded: a sleeper that is cancelled must not leave a cancelled future for advance to set.
        await asyncio.shield(asyncio.wrap_future(woken))

    def _begin(self, seconds: float) -> Future[None]:
        woken: Future[None] = Future()
        with self._lock:
            self._slept.append(seconds)
            end = self._now + max(0.0, seconds)
            heapq.heappush(self._sleepers, (end, len(self._slept), woken))
        self._move_to(end if self._autojump else self._now)
        return woken

    def _move_to(self, moment: float) -> None:
        with self._lock:
            self._now = max(self._now, moment)
            while self._sleepers and self._sleepers[0][0] <= self._now:
                heapq.heappop(self._sleepers)[2].set_result(None)
