"""What a caller is told."""

import pytest

from baseload_client.core.report import AttemptRecord, downgraded

TIERS = ("small", "large")


def tried(model: str, tier: str = "") -> AttemptRecord:
    return AttemptRecord(
        model=model, endpoint="http://router/v1", sent=True, reason="server_error", tier=tier
    )


@pytest.mark.parametrize(
    ("requested", "served", "attempts", "expected"),
    [
        ("large", "large", [tried("large")], False),
        ("large", "small", [tried("large"), tried("small")], True),
        ("small", "large", [tried("small"), tried("large")], False),
        ("auto", "large", [tried("auto", "large")], False),
        ("auto", "small", [tried("auto", "small")], False),
        ("auto", "small", [tried("auto", "large"), tried("small")], True),
        ("auto", "large", [tried("auto", "small"), tried("large")], False),
        ("auto", "small", [tried("auto"), tried("large"), tried("small")], True),
        ("mine", "other", [tried("mine"), tried("other")], True),
        ("large", "", [tried("large")], False),
    ],
)
def test_downgraded_means_a_higher_tier_was_asked_for_or_tried(
    requested: str, served: str, attempts: list[AttemptRecord], expected: bool
) -> None:
    assert downgraded(requested, served, attempts, TIERS) is expected


def test_attempt_reads_as_a_sentence() -> None:
    record = AttemptRecord(
        model="small", endpoint="http://a/v1", sent=True, reason="server_error", status=503
    )
    assert str(record) == "small at http://a/v1: status 503, server_error"
    assert str(AttemptRecord(model="", endpoint="http://a/v1", sent=True, reason="timeout")) == (
        "request at http://a/v1: timeout"
    )
