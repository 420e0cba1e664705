"""tenacity's objects as the backoff policy."""

import tenacity
from hypothesis import given
from hypothesis import strategies as st

from baseload_client.backoff import TenacityBackoff


@given(st.integers(1, 30))
def test_full_jitter_stays_in_its_doubling_range(failures: int) -> None:
    backoff = TenacityBackoff(
        tenacity.wait_random_exponential(multiplier=0.2, max=5.0), tenacity.stop_after_attempt(100)
    )
    wait = backoff.wait(failures, 0.0)
    assert wait is not None
    assert 0 <= wait <= min(5.0, 0.2 * 2 ** (failures - 1))


def test_stop_after_attempt_counts_failures_of_the_target() -> None:
    backoff = TenacityBackoff(tenacity.wait_fixed(1.5), tenacity.stop_after_attempt(2))
    assert (backoff.wait(1, 50.0), backoff.wait(2, 0.0)) == (1.5, None)


def test_stop_by_time_sees_the_whole_call_and_the_coming_wait() -> None:
    backoff = TenacityBackoff(tenacity.wait_fixed(2), tenacity.stop_before_delay(10))
    assert (backoff.wait(1, 7.5), backoff.wait(1, 8.5)) == (2.0, None)


def test_questions_do_not_leave_traces_in_each_other() -> None:
    backoff = TenacityBackoff(tenacity.wait_incrementing(1, 1), tenacity.stop_after_attempt(5))
    assert [backoff.wait(failures, 0.0) for failures in (3, 1, 3, 5, 1)] == [3.0, 1.0, 3.0, None, 1.0]
