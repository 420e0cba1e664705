"""Shared by the client's tests."""

import os
from collections.abc import Iterator

import pytest
from baseload_client.testing import FakeUpstream, VirtualClock


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("BASELOAD_CLIENT_", "OPENAI_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as running:
        yield running


@pytest.fixture
def other_upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as running:
        yield running
