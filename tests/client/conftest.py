"""Shared by the client's tests."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest

from baseload_client import (
    AsyncClient,
    AsyncResilientTransport,
    BudgetConfig,
    Client,
    ClientPolicy,
    ResilientTransport,
    RetryBudget,
)
from baseload_client.testing import FakeUpstream, VirtualClock

MakeClient = Callable[..., Client]
MakeAsyncClient = Callable[..., AsyncClient]


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


@pytest.fixture
def make_client(clock: VirtualClock) -> Iterator[MakeClient]:
    """Clients with a budget of their own: the process's one would let tests starve each other."""
    with ExitStack() as on_end:

        def make(base_url: str, *, budget: RetryBudget | None = None, **policy: Any) -> Client:
            transport = ResilientTransport(
                base_url=base_url,
                policy=ClientPolicy(**policy),
                budget=budget or RetryBudget(BudgetConfig(reserve=100)),
                clock=clock,
            )
            return on_end.enter_context(Client(base_url=base_url, transport=transport))

        yield make


@pytest.fixture
async def make_async_client(clock: VirtualClock) -> AsyncIterator[MakeAsyncClient]:
    """``make_client`` for asynchronous tests."""
    async with AsyncExitStack() as on_end:
        clients: list[AsyncClient] = []

        def make(base_url: str, *, budget: RetryBudget | None = None, **policy: Any) -> AsyncClient:
            transport = AsyncResilientTransport(
                base_url=base_url,
                policy=ClientPolicy(**policy),
                budget=budget or RetryBudget(BudgetConfig(reserve=100)),
                clock=clock,
            )
            clients.append(AsyncClient(base_url=base_url, transport=transport))
            on_end.push_async_callback(clients[-1].close)
            return clients[-1]

        yield make
