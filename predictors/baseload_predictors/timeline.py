"""The cold start by phase, on one clock, from the process's birth to the first answer."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: seconds from the process's birth at its start and end. Phases may overlap."""

    name: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


class Timeline:
    """Collects phases; threads may add to it at the same time."""

    def __init__(self, birth: float) -> None:
        self._birth = birth
        self._phases: list[Phase] = []

    @classmethod
    def since_process_birth(cls) -> "Timeline":
        return cls(process_birth())

    @property
    def phases(self) -> tuple[Phase, ...]:
        return tuple(self._phases)

    def now(self) -> float:
        return time.monotonic() - self._birth

    def add(self, name: str, begin: float) -> None:
        """Phase ``name`` from ``begin`` (as ``now`` gave it) until now."""
        self._phases.append(Phase(name, begin, self.now()))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begin = self.now()
        try:
            yield
        finally:
            self.add(name, begin)


def process_birth() -> float:
    """When the kernel started this process, in ``time.monotonic`` seconds (proc(5), stat field 22).

    The field counts from boot, and so does CLOCK_BOOTTIME; the difference carries over.
    """
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - started
    return time.monotonic() - max(0.0, age)
