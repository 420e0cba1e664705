"""A circuit-breaking client: the OpenAI SDK over a transport that retries, falls back and tells what it
did."""

from baseload_client.client import AsyncClient, Client
from baseload_client.core.breaker import Breaker, BreakerConfig, Permit, Rejected, State
from baseload_client.core.budget import BudgetConfig, RetryBudget
from baseload_client.core.registry import BreakerRegistry, TargetKey
from baseload_client.core.report import AttemptRecord, Resilience
from baseload_client.errors import (
    AllTargetsFailedError,
    BaseloadClientError,
    DeadlineExceededError,
    PolicyError,
    StreamTimeoutError,
    StreamTruncatedError,
)
from baseload_client.policy import ClientPolicy, Fallback
from baseload_client.sdk import resilience_of
from baseload_client.transport import AsyncResilientTransport, ResilientTransport, process_budget

__all__ = [
    "AllTargetsFailedError",
    "AsyncClient",
    "AsyncResilientTransport",
    "AttemptRecord",
    "BaseloadClientError",
    "Breaker",
    "BreakerConfig",
    "BreakerRegistry",
    "BudgetConfig",
    "Client",
    "ClientPolicy",
    "DeadlineExceededError",
    "Fallback",
    "Permit",
    "PolicyError",
    "Rejected",
    "Resilience",
    "ResilientTransport",
    "RetryBudget",
    "State",
    "StreamTimeoutError",
    "StreamTruncatedError",
    "TargetKey",
    "process_budget",
    "resilience_of",
]
