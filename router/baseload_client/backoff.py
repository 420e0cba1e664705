"""tenacity's wait and stop objects as the plan's backoff policy.

Only the objects are used, as the language in which a policy is written; tenacity's own loop never runs, so a
call that succeeds at once costs nothing here.
"""

from tenacity import RetryCallState, Retrying
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT


class TenacityBackoff:
    """A ``core.attempts.Backoff``.

    wait, stop: see tenacity's documentation. ``attempt_number`` counts the failures on one target and
    ``seconds_since_start`` the whole call. Objects that look at the outcome (``wait_exception``) find none.
    """

    def __init__(self, wait: WaitBaseT, stop: StopBaseT) -> None:
        self._wait = wait
        self._stop = stop
        self._policy = Retrying(wait=wait, stop=stop)

    def wait(self, failures: int, elapsed_s: float) -> float | None:
        # A state of its own for each question: a shared one mixes up the counts of concurrent calls.
        state = RetryCallState(self._policy, None, (), {})
        state.start_time, state.outcome_timestamp = 0.0, elapsed_s
        state.attempt_number = failures
        state.upcoming_sleep = float(self._wait(state))
        return None if self._stop(state) else state.upcoming_sleep
