"""The batching state machine, on a clock that the tests own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_predictors.core.batcher import Admitted, Batch, Batcher, BatchLimits, Refused

LIMITS = BatchLimits(slots=4, max_batch_size=2, max_wait=0.5, max_queue=3)


def leave_all(batcher: Batcher, now: float) -> list[Batch]:
    batches = []
    while batch := batcher.poll(now):
        batches.append(batch)
    return batches


def saturated(now: float = 0.0) -> Batcher:
    batcher = Batcher(LIMITS)
    for key in range(4):
        batcher.add(key, now)
        leave_all(batcher, now)
    return batcher


def test_a_request_leaves_at_once_while_a_slot_is_free() -> None:
    batcher = Batcher(LIMITS)
    assert batcher.add(1, 10.0) == Admitted(ahead=0)
    assert batcher.poll(10.0) == Batch((1,), "slots free")
    assert (batcher.waiting, batcher.running, batcher.deadline()) == (0, 1, None)


def test_nothing_leaves_while_all_slots_run() -> None:
    batcher = saturated()
    assert batcher.add(4, 1.0) == Admitted(ahead=0)
    assert batcher.add(5, 1.0) == Admitted(ahead=1)
    assert batcher.poll(99.0) is None
    assert batcher.deadline() is None


def test_after_saturation_a_full_group_leaves_without_waiting() -> None:
    batcher = saturated()
    for key in (4, 5, 6):
        batcher.add(key, 1.0)
    batcher.done(0, 2.0)
    assert batcher.poll(2.0) is None
    batcher.done(1, 2.1)
    assert batcher.poll(2.1) == Batch((4, 5), "group full")


def test_max_wait_ends_the_hold_while_a_slot_is_free() -> None:
    batcher = saturated()
    batcher.add(4, 1.0)
    batcher.add(5, 1.0)
    batcher.done(0, 2.0)
    assert batcher.deadline() == 2.5
    assert batcher.poll(2.4) is None
    assert batcher.poll(2.5) == Batch((4,), "max wait")


def test_the_last_waiting_one_leaves_with_the_first_free_slot() -> None:
    batcher = saturated()
    batcher.add(4, 1.0)
    batcher.done(0, 2.0)
    assert batcher.poll(2.0) == Batch((4,), "group full")


def test_once_the_queue_is_empty_there_is_no_grouping() -> None:
    batcher = saturated()
    batcher.add(4, 1.0)
    batcher.done(0, 2.0)
    leave_all(batcher, 2.0)
    batcher.done(1, 3.0)
    batcher.done(2, 3.0)
    batcher.add(5, 3.0)
    assert batcher.poll(3.0) == Batch((5,), "slots free")


def test_a_full_queue_refuses_with_the_time_its_drain_takes() -> None:
    batcher = saturated()
    for key in (4, 5, 6):
        batcher.add(key, 0.0)
    assert batcher.add(7, 0.0) == Refused("3 requests already wait", 1)


def test_retry_after_follows_measured_service_times_up_to_a_ceiling() -> None:
    batcher = Batcher(BatchLimits(slots=1, max_batch_size=1, max_wait=0, max_queue=1))
    for key in range(200):
        batcher.add(key, 100.0 * key)
        batcher.poll(100.0 * key)
        batcher.done(key, 100.0 * key + 40.0)
    batcher.add(1000, 1e6)
    batcher.poll(1e6)
    batcher.add(1001, 1e6)
    assert batcher.add(1002, 1e6) == Refused("1 requests already wait", 40)
    batcher.done(1000, 1e6 + 1e5)
    batcher.poll(1e6 + 1e5)
    batcher.add(1003, 1e6 + 1e5)
    assert batcher.add(1004, 1e6 + 1e5) == Refused("1 requests already wait", 60)


def test_a_caller_who_left_frees_its_place_wherever_it_was() -> None:
    batcher = saturated()
    batcher.add(4, 1.0)
    batcher.cancel(4, 1.1)
    batcher.cancel(0, 1.2)
    assert (batcher.waiting, batcher.running) == (0, 3)
    batcher.add(5, 1.3)
    assert batcher.poll(1.3) == Batch((5,), "slots free")


def test_a_cancelled_run_does_not_count_as_a_service_time() -> None:
    batcher = Batcher(BatchLimits(slots=1, max_batch_size=1, max_wait=0, max_queue=1))
    batcher.add(0, 0.0)
    batcher.poll(0.0)
    batcher.cancel(0, 10_000.0)
    batcher.add(1, 10_000.0)
    batcher.poll(10_000.0)
    batcher.add(2, 10_000.0)
    assert batcher.add(3, 10_000.0) == Refused("1 requests already wait", 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [("slots", 0), ("max_batch_size", 0), ("max_queue", 0), ("max_wait", -1.0), ("max_wait", float("inf"))],
)
def test_limits_that_could_never_work_are_refused(field: str, value: float) -> None:
    good = {"slots": 1, "max_batch_size": 1, "max_wait": 0.0, "max_queue": 1}
    with pytest.raises(ValueError, match=field):
        BatchLimits(**{**good, field: value})


limits = st.builds(
    BatchLimits,
    slots=st.integers(1, 5),
    max_batch_size=st.integers(1, 5),
    max_wait=st.sampled_from([0.0, 0.1, 1.0]),
    max_queue=st.integers(1, 6),
)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "done", "cancel", "wait"]), st.integers(0, 9), st.floats(0, 0.7)),
    max_size=80,
)


@given(limits, steps)
def test_no_request_is_lost_doubled_reordered_or_held_too_long(
    limits: BatchLimits, steps: list[tuple[str, int, float]]
) -> None:
    """A driver that polls as the shell does, against a plain model of queue and engine."""
    batcher, now, key = Batcher(limits), 0.0, 0
    waiting: list[int] = []
    running: list[int] = []
    free_since: float | None = None

    def poll() -> None:
        nonlocal free_since
        for batch in leave_all(batcher, now):
            size = len(batch.keys)
            assert 1 <= size <= limits.max_batch_size
            assert list(batch.keys) == waiting[:size], "first come, first served"
            del waiting[:size]
            running.extend(batch.keys)
            free_since = None
        assert len(running) <= limits.slots
        assert len(waiting) <= limits.max_queue
        assert (batcher.waiting, batcher.running) == (len(waiting), len(running))
        idle_slot = len(running) < limits.slots and waiting
        free_since = (now if free_since is None else free_since) if idle_slot else None
        if free_since is not None:
            assert now - free_since < limits.max_wait, "held beyond max_wait while a slot was free"
            assert batcher.deadline() == pytest.approx(free_since + limits.max_wait)

    for action, pick, pause in steps:
        if action == "add":
            key += 1
            if isinstance(batcher.add(key, now), Admitted):
                waiting.append(key)
            else:
                assert len(waiting) == limits.max_queue
        elif action == "done" and running:
            batcher.done(running.pop(pick % len(running)), now)
        elif action == "cancel" and waiting + running:
            gone = (waiting + running)[pick % len(waiting + running)]
            (waiting if gone in waiting else running).remove(gone)
            batcher.cancel(gone, now)
        elif action == "wait":
            deadline = batcher.deadline()
            now = now + pause if deadline is None else min(now + pause, deadline)
        poll()
