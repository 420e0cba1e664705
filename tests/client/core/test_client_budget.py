"""The retry budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from baseload_client.core.budget import BudgetConfig, RetryBudget


def test_a_small_program_can_retry_from_the_reserve_and_then_not() -> None:
    budget = RetryBudget(BudgetConfig(reserve=3))
    assert [budget.withdraw() for _ in range(4)] == [True, True, True, False]
    assert budget.exhausted


def test_ten_calls_earn_one_more_request() -> None:
    budget = RetryBudget(BudgetConfig(reserve=0, deposit_ratio=0.125))
    for _ in range(8):
        assert not budget.withdraw()
        budget.deposit()
    assert budget.withdraw()
    assert not budget.withdraw()


def test_a_long_good_time_saves_no_more_than_the_ceiling() -> None:
    budget = RetryBudget(BudgetConfig(reserve=1, ceiling=2))
    for _ in range(1000):
        budget.deposit()
    assert budget.tokens == 2
    assert repr(budget) == "<RetryBudget 2.0 of 2.0>"


def test_reserve_raises_a_lower_ceiling() -> None:
    budget = RetryBudget(BudgetConfig(reserve=5, ceiling=1))
    budget.deposit()
    assert budget.tokens == 5


def test_config_refuses_a_ratio_over_one() -> None:
    with pytest.raises(ValidationError, match="deposit_ratio"):
        BudgetConfig(deposit_ratio=1.5)


@given(st.lists(st.booleans(), max_size=500))
def test_withdrawals_never_exceed_reserve_plus_share_of_calls(withdrawals: list[bool]) -> None:
    budget = RetryBudget(BudgetConfig())
    calls = granted = 0
    for wanted in withdrawals:
        if wanted:
            granted += budget.withdraw()
        else:
            budget.deposit()
            calls += 1
        assert granted <= 10 + 0.1 * calls + 1e-9
        assert 0 <= budget.tokens <= 100
