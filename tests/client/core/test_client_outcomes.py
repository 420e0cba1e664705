"""What an attempt's end means."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_client.core.outcomes import (
    LONGEST_RETRY_AFTER_S,
    Kind,
    Outcome,
    Verdict,
    kind_of_status,
    retry_after,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (200, Verdict.SUCCESS),
        (302, Verdict.SUCCESS),
        (400, Verdict.IGNORED),
        (401, Verdict.IGNORED),
        (404, Verdict.IGNORED),
        (422, Verdict.IGNORED),
        (429, Verdict.LIMITED),
        (500, Verdict.FAILURE),
        (501, Verdict.IGNORED),
        (502, Verdict.FAILURE),
        (503, Verdict.FAILURE),
        (504, Verdict.FAILURE),
        (529, Verdict.FAILURE),
    ],
)
def test_status_decides_the_verdict(status: int, verdict: Verdict) -> None:
    assert kind_of_status(status).verdict is verdict


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        (Kind.CONNECT, Verdict.FAILURE),
        (Kind.CONNECTION_LOST, Verdict.FAILURE),
        (Kind.TIMEOUT, Verdict.FAILURE),
        (Kind.TRUNCATED, Verdict.FAILURE),
        (Kind.STREAM_ERROR, Verdict.FAILURE),
        (Kind.POOL_EXHAUSTED, Verdict.IGNORED),
        (Kind.LOCAL, Verdict.IGNORED),
    ],
)
def test_transport_faults_are_failures_and_local_ones_are_not(kind: Kind, verdict: Verdict) -> None:
    assert Outcome(at=0.0, kind=kind).verdict is verdict


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("1", 1.0),
        ("5", 5.0),
        ("100", 100.0),
        (" 2.5 ", 2.5),
        ("3600", 3600.0),
        ("0", 0.0),
        ("-5", None),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("1e300", LONGEST_RETRY_AFTER_S),
        ("Sun, 01 Mar 2026 12:00:07 GMT", 7.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sun, 01 Mar 2026 12:00:07 -0000", 7.0),
        ("Fri, 01 Jan 9999 00:00:00 GMT", LONGEST_RETRY_AFTER_S),
        ("Sun, 31 Feb 2026 12:00:00 GMT", None),
    ],
)
def test_retry_after_takes_seconds_and_dates_and_nothing_else(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after(value, NOW) == seconds


@given(st.text())
def test_retry_after_never_fails_and_never_leaves_its_range(value: str) -> None:
    seconds = retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= LONGEST_RETRY_AFTER_S


@given(st.integers(0, 86_400), st.integers(-12, 12))
def test_retry_after_reads_every_date_it_is_given(ahead: int, zone: int) -> None:
    moment = (NOW + timedelta(seconds=ahead)).astimezone(timezone(timedelta(hours=zone)))
    assert retry_after(format_datetime(moment), NOW) == ahead
