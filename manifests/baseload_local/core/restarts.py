"""When a crashed process is started again.

Theory of operation. As Kubernetes does for a container (CrashLoopBackOff), the pause before a restart
doubles from ``first`` to ``ceiling``, and a process that stayed ready for ``forgiven_after`` seconds
starts over at ``first``. The caller owns the clock: ``now`` is monotonic seconds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """All in seconds."""

    first: float = 1.0
    ceiling: float = 60.0
    forgiven_after: float = 60.0


class Restarts:
    """The restart history of one process."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._pause = policy.first
        self._ready_at: float | None = None
        self.count = 0

    def ready(self, now: float) -> None:
        self._ready_at = now

    def exited(self, now: float) -> float:
        """The process has ended without being asked to. Returns the pause before its next start."""
        if self._ready_at is not None and now - self._ready_at >= self._policy.forgiven_after:
            self._pause = self._policy.first
        self._ready_at = None
        pause, self._pause = self._pause, min(2 * self._pause, self._policy.ceiling)
        self.count += 1
        return pause
