"""Response bodies on their way to the caller, and what their end means for the breaker."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import NoReturn

import httpx2

from baseload_client.clock import Clock
from baseload_client.core.breaker import Permit
from baseload_client.core.outcomes import Kind
from baseload_client.core.sse import StreamWatch
from baseload_client.errors import StreamTimeoutError, StreamTruncatedError

MAX_HELD_BYTES = 64 * 1024
"""How much of a stream without an event (comments) is held back before it is handed on all the same."""


class BufferedStream(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that is already here."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        yield self._body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


@dataclass(slots=True)
class OpenBody:
    """A reply whose body still runs.

    held: pieces already read while waiting for the first event. watch: None where the body is no completion's
    event stream. sync, later: the rest of the body, by the kind of transport.
    """

    response: httpx2.Response
    watch: StreamWatch | None = None
    held: list[bytes] = field(default_factory=list)
    sync: Iterator[bytes] = field(default_factory=lambda: iter(()))
    later: AsyncIterator[bytes] | None = None

    @property
    def waiting(self) -> bool:
        """Whether to read on before the reply counts as begun: until the first event of a watched stream."""
        return (
            self.watch is not None
            and self.watch.events == 0
            and sum(len(piece) for piece in self.held) < MAX_HELD_BYTES
        )

    def hold_next(self, piece: bytes | None) -> None:
        """Takes the next piece of the body, None at its end. Raises StreamTruncatedError if it had no
        event."""
        # The last line of a stream may lack its end.
        self.held.append(b"\n" if piece is None else piece)
        if self.watch is not None:
            self.watch.feed(self.held[-1])
            if piece is None and self.watch.events == 0:
                raise truncated(self.watch)


class BodyGuard:
    """Settles the permit by the way the body ends, once; shared by both kinds of stream."""

    def __init__(self, watch: StreamWatch | None, permit: Permit, clock: Clock, deadline: float) -> None:
        self._watch = watch
        self._permit = permit
        self._clock = clock
        self._deadline = deadline

    def time_left(self) -> float:
        """Seconds. Raises StreamTimeoutError if there are none."""
        left = self._deadline - self._clock.now()
        if left <= 0:
            self.timed_out("the call's deadline passed while its stream ran")
        return left

    def saw(self, piece: bytes) -> None:
        if self._watch is not None:
            self._watch.feed(piece)

    def ended(self) -> None:
        """The body came to its end. Raises StreamTruncatedError if the answer had not."""
        self.saw(b"\n")  # the last line may lack its end
        if self._watch is None:
            self._permit.success(self._clock.now())
        elif not self._told():
            self._permit.failure(self._clock.now(), Kind.TRUNCATED)
            raise truncated(self._watch)

    def broke(self, error: httpx2.TransportError) -> None:
        """Reading failed. Returns if the answer was complete all the same, else raises what to tell."""
        if self._told():
            return
        if isinstance(error, httpx2.TimeoutException):
            self.timed_out("the stream fell silent", error)
        self._permit.failure(self._clock.now(), Kind.TRUNCATED)
        raise truncated(self._watch) from error

    def timed_out(self, why: str, cause: Exception | None = None) -> NoReturn:
        self._permit.failure(self._clock.now(), Kind.TIMEOUT)
        raise StreamTimeoutError(f"{why} {_after(self._watch)}") from cause

    def left(self) -> None:
        """The consumer closed the body: after a complete answer that is its end, before it is no verdict."""
        if not self._told():
            self._permit.ignore(self._clock.now())

    def _told(self) -> bool:
        """Whether the stream itself said how it went; the permit is then settled by that."""
        watch, now = self._watch, self._clock.now()
        if watch is None or not (watch.complete or watch.error_status):
            return False
        if watch.error_status is None:
            self._permit.success(now)
        elif watch.error_status < 500:
            self._permit.ignore(now)
        else:
            self._permit.failure(now, Kind.STREAM_ERROR)
        return True


class GuardedStream(httpx2.SyncByteStream):
    """The rest of a body for a synchronous caller."""

    def __init__(self, body: OpenBody, guard: BodyGuard) -> None:
        self._body = body
        self._guard = guard

    def __iter__(self) -> Iterator[bytes]:
        yield from self._body.held
        try:
            for piece in self._body.sync:
                self._guard.saw(piece)
                yield piece
                self._guard.time_left()
        except (StreamTimeoutError, StreamTruncatedError):
            raise
        except httpx2.TransportError as error:
            self._guard.broke(error)
        else:
            self._guard.ended()

    def close(self) -> None:
        self._guard.left()
        self._body.response.close()


class AsyncGuardedStream(httpx2.AsyncByteStream):
    """The rest of a body for an asynchronous caller."""

    def __init__(self, body: OpenBody, guard: BodyGuard) -> None:
        self._body = body
        self._guard = guard

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for held in self._body.held:
            yield held
        while (piece := await self._next()) is not None:
            self._guard.saw(piece)
            yield piece

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._guard.time_left()):
                if self._body.later is not None:
                    return await anext(self._body.later)
        except StopAsyncIteration:
            self._guard.ended()
        except TimeoutError as error:
            self._guard.timed_out("the call's deadline passed while its stream ran", error)
        except StreamTimeoutError:
            raise
        except httpx2.TransportError as error:
            self._guard.broke(error)
        return None

    async def aclose(self) -> None:
        self._guard.left()
        await self._body.response.aclose()


def truncated(watch: StreamWatch | None) -> StreamTruncatedError:
    """The error for a body that ended early, with how far it came."""
    return StreamTruncatedError(f"the reply ended {_after(watch)} without a finish_reason or [DONE]")


def _after(watch: StreamWatch | None) -> str:
    return f"after {watch.events} events" if watch is not None else "before its end"
