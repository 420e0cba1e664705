"""The pause before a crashed process starts again."""

from hypothesis import given
from hypothesis import strategies as st

from baseload_local.core.restarts import RestartPolicy, Restarts

POLICY = RestartPolicy(first=1, ceiling=8, forgiven_after=60)


def test_the_pause_doubles_up_to_the_ceiling() -> None:
    restarts = Restarts(POLICY)
    assert [restarts.exited(float(n)) for n in range(6)] == [1, 2, 4, 8, 8, 8]
    assert restarts.count == 6


def test_a_long_ready_time_is_forgiven_a_short_one_is_not() -> None:
    restarts = Restarts(POLICY)
    restarts.exited(0)
    restarts.ready(10)
    assert restarts.exited(20) == 2
    restarts.ready(30)
    assert restarts.exited(90) == 1


def test_time_that_it_was_not_ready_does_not_count() -> None:
    restarts = Restarts(POLICY)
    restarts.ready(0)
    restarts.exited(1)
    assert restarts.exited(1000) == 2


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 200)), max_size=40))
def test_the_pause_stays_between_first_and_ceiling(events: list[tuple[bool, float]]) -> None:
    restarts, now = Restarts(POLICY), 0.0
    for ready, pause in events:
        now += pause
        if ready:
            restarts.ready(now)
        else:
            assert POLICY.first <= restarts.exited(now) <= POLICY.ceiling
