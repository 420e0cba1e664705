"""Settings: in code, by environment, from a file."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from baseload_client import Client, ClientPolicy, Fallback, PolicyError, process_budget
from baseload_client.core.attempts import Target
from baseload_client.core.breaker import BreakerConfig


def written(folder: Path, text: str) -> Path:
    path = folder / "client.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_fall_back_between_the_tiers() -> None:
    policy = ClientPolicy()
    assert policy.breaker == BreakerConfig(failure_rate=0.6, window=10, open_s=30.0, half_open_calls=3)
    assert [target.model for target in policy.chain("http://r/v1", "auto")] == ["auto", "large", "small"]
    assert policy.chain("http://r/v1", "unknown") == [Target("http://r/v1", "unknown")]


def test_fallback_takes_a_name_or_a_target_and_repeats_are_dropped() -> None:
    policy = ClientPolicy(
        fallbacks={"a": ["b", {"model": "b", "base_url": "http://far/v1/"}, "a"]},  # type: ignore[dict-item, list-item]  # as a file would
    )
    assert policy.chain("http://r/v1", "a") == [
        Target("http://r/v1", "a"),
        Target("http://r/v1", "b"),
        Target("http://far/v1", "b"),
    ]


def test_environment_sets_what_code_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASELOAD_CLIENT_TOTAL_DEADLINE_S", "9")
    monkeypatch.setenv("BASELOAD_CLIENT_MAX_ATTEMPTS", "7")
    monkeypatch.setenv("BASELOAD_CLIENT_BREAKER__OPEN_S", "5")
    monkeypatch.setenv("BASELOAD_CLIENT_FALLBACKS", '{"small": ["other"]}')
    policy = ClientPolicy(max_attempts=1)
    assert (policy.total_deadline_s, policy.max_attempts, policy.breaker.open_s) == (9.0, 1, 5.0)
    assert policy.fallbacks["small"] == (Fallback(model="other"),)


def test_file_sets_what_the_environment_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASELOAD_CLIENT_BREAKER__OPEN_S", "5")
    path = written(
        tmp_path, "max_attempts: 4\nbreaker: {window: 20, open_s: 99}\nfallbacks: {small: [large]}\n"
    )
    policy = ClientPolicy.from_file(path)
    assert (policy.max_attempts, policy.breaker.window, policy.breaker.open_s) == (4, 20, 5.0)
    assert type(policy) is ClientPolicy


def test_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert ClientPolicy.from_file(written(tmp_path, "")) == ClientPolicy()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_attemps: 2", r"client.yaml: max_attemps: unknown setting; known are .*max_attempts"),
        ("max_attempts: 0", r"client.yaml: max_attempts: input should be greater than 0"),
        ("breaker: {failure_rate: 60}", r"breaker.failure_rate: input should be less than or equal to 1"),
        ("fallbacks: {small: [{model: a, base_url: far}]}", r"fallbacks.small.0.base_url"),
        ("- a", r"client.yaml is not a mapping of settings"),
        ("a: [", r"client.yaml is not YAML"),
    ],
)
def test_bad_file_is_refused_with_file_field_and_fix(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        ClientPolicy.from_file(written(tmp_path, text))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"gone.yaml cannot be read"):
        ClientPolicy.from_file(tmp_path / "gone.yaml")


def test_unknown_setting_in_code_is_refused() -> None:
    with pytest.raises(ValidationError, match="retries"):
        ClientPolicy(retries=3)  # type: ignore[call-arg]  # wrong on purpose


def test_clients_of_a_process_share_one_budget() -> None:
    with Client() as one, Client() as two:
        budgets = {id(client._client._transport.budget) for client in (one, two)}  # type: ignore[attr-defined]  # ours
    assert budgets == {id(process_budget(ClientPolicy().budget))}
