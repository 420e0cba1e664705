"""Test helpers for code that calls or serves an OpenAI-compatible API: a fake upstream with scripted faults,
and a clock that moves only when the test says so."""

from baseload_client.testing.clock import VirtualClock
from baseload_client.testing.fake_upstream import FakeUpstream, RecordedRequest
from baseload_client.testing.replies import CloseBeforeReply, CutAfter, Echo, Gate, Hang, Reply, Scripted

__all__ = [
    "CloseBeforeReply",
    "CutAfter",
    "Echo",
    "FakeUpstream",
    "Gate",
    "Hang",
    "RecordedRequest",
    "Reply",
    "Scripted",
    "VirtualClock",
]
