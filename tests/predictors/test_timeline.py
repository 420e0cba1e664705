"""Cold start by phase."""

import time

import pytest

from baseload_predictors.timeline import Timeline, process_birth


def test_phases_count_from_the_process_birth() -> None:
    birth = process_birth()
    assert birth < time.monotonic()
    timeline = Timeline(birth)
    with timeline.phase("imports"):
        begin = timeline.now()
    (phase,) = timeline.phases
    assert phase.name == "imports"
    assert 0 < phase.begin <= begin <= phase.end
    assert phase.seconds == phase.end - phase.begin


def test_a_phase_that_fails_is_kept() -> None:
    timeline = Timeline(time.monotonic())
    with pytest.raises(ValueError, match="no"), timeline.phase("load"):
        raise ValueError("no")
    assert [phase.name for phase in timeline.phases] == ["load"]
