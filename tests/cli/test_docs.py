"""What the documentation shows is what the code does."""

import re
from pathlib import Path

import pytest

from baseload_client import ClientPolicy
from baseload_router.core.policy import Policy
from baseload_router.loading import read_policy
from support.stack import ROOT

SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def example(title: str, folder: Path) -> Path:
    """The YAML block of docs/settings.md that begins with ``# title``, as a file."""
    (block,) = re.findall(rf"```yaml\n(# {title}\n.*?)```", SETTINGS, re.DOTALL)
    path = folder / f"{title}.yaml"
    path.write_text(block, encoding="utf-8")
    return path


def test_the_routers_policy_shows_every_setting_with_its_default(tmp_path: Path) -> None:
    policy = read_policy(example("router", tmp_path))
    assert policy == Policy()
    assert policy.model_fields_set == set(Policy.model_fields)


def test_the_clients_policy_shows_every_setting_with_its_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BASELOAD_CLIENT_BREAKER__OPEN_S", raising=False)
    policy = ClientPolicy.from_file(example("client", tmp_path))
    assert policy == ClientPolicy()
    assert policy.model_fields_set == set(ClientPolicy.model_fields)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/design.md", "manifests/README.md"])
def test_links_lead_to_files(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target
