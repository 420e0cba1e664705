"""Keeps one process running: first start, readiness, restart after a crash, stop."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from baseload_local.core.restarts import RestartPolicy, Restarts
from baseload_local.errors import ProcessFailedError
from baseload_local.process import Child, Command

log = logging.getLogger(__name__)

PROBE_EVERY_S = 0.25
STARTUP_LIMIT_S = 600.0
"""As the startup probe in the manifests: a slow load is not a failure."""

Probe = Callable[[], Awaitable[bool]]
OnChange = Callable[[], None]


class Supervisor:
    """One part of the stack. ``on_change`` is called when it is spawned and when its readiness changes."""

    def __init__(
        self,
        make: Callable[[], Command],
        probe: Probe,
        on_change: OnChange,
        policy: RestartPolicy | None = None,
    ) -> None:
        self._make = make
        self._probe = probe
        self._on_change = on_change
        self._restarts = Restarts(policy or RestartPolicy())
        self._child: Child | None = None
        self._ready = False

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child and self._child.running else None

    @property
    def ready(self) -> bool:
        return self._ready

    @property
    def restarts(self) -> int:
        return self._restarts.count

    async def start(self) -> None:
        """Start and wait until ready. Raises ProcessFailedError with the process's last words."""
        self._child = await Child.start(self._make(), again=self.restarts > 0)
        self._on_change()
        begin = time.monotonic()
        while not await self._probe():
            if not self._child.running:
                await self._child.wait()
                raise ProcessFailedError(f"{self._name} ended: {self._child.last_words()}")
            if time.monotonic() - begin > STARTUP_LIMIT_S:
                raise ProcessFailedError(
                    f"{self._name} was not ready after {STARTUP_LIMIT_S:.0f} s; see {self._child.command.log}"
                )
            await asyncio.sleep(PROBE_EVERY_S)
        self._restarts.ready(time.monotonic())
        self._change(ready=True)

    async def keep(self) -> None:
        """After ``start``: watch readiness, and start again after each end. Runs until cancelled."""
        while True:
            try:
                await self._watch()
                pause = self._restarts.exited(time.monotonic())
                self._change(ready=False)
                log.warning("%s ended; starting it again in %.0f s", self._name, pause)
                await asyncio.sleep(pause)
                await self.start()
            except (ProcessFailedError, OSError) as error:
                log.warning("%s: %s", self._name, error)
                await self.stop(grace=0)

    async def stop(self, grace: float) -> None:
        try:
            self._change(ready=False)
        finally:
            if self._child is not None:
                await self._child.stop(grace)

    @property
    def _name(self) -> str:
        return self._child.command.name if self._child else "(not started)"

    async def _watch(self) -> None:
        """Until the process ends, tell of every change of its readiness."""
        if self._child is None:
            return
        ended = asyncio.create_task(self._child.wait())
        try:
            while not (await asyncio.wait({ended}, timeout=PROBE_EVERY_S))[0]:
                self._change(ready=await self._probe())
        finally:
            ended.cancel()

    def _change(self, *, ready: bool) -> None:
        if ready != self._ready:
            self._ready = ready
            self._on_change()
