"""Settings: the variables that boto3 and KServe use, and what is told about wrong ones."""

import subprocess
import sys
from pathlib import Path

import pytest

from baseload_storage.core.ref import BucketUrl
from baseload_storage.errors import SettingsInvalidError
from baseload_storage.s3 import Bucket
from baseload_storage.settings import S3Settings

VARIABLES = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ACCESS_KEY_ID"),
    *(
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_CA_BUNDLE",
        "S3_VERIFY_SSL",
        "S3_USER_VIRTUAL_BUCKET",
    ),
)


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_any_variable_boto3_decides() -> None:
    settings = S3Settings()
    assert settings.endpoint_url is None
    assert settings.access_key is None
    assert settings.verify_ssl is True


def test_kserves_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "AWS_ENDPOINT_URL": "https://store:9000",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "S3_VERIFY_SSL": "0",
        "S3_USER_VIRTUAL_BUCKET": "true",
        "AWS_CA_BUNDLE": "",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = S3Settings()
    assert settings.endpoint_url == "https://store:9000"
    assert settings.region == "eu-west-1"
    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() == "hidden"
    assert (settings.verify_ssl, settings.virtual_bucket, settings.ca_bundle) == (False, True, None)
    assert "hidden" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("S3_VERIFY_SSL", "perhaps"),
        ("AWS_ENDPOINT_URL", "store:9000"),
        ("AWS_CA_BUNDLE", "/nonexistent/ca.pem"),
    ],
)
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalidError, match=name):
        S3Settings()


@pytest.mark.parametrize("url", ["http://", "http://a b"])
def test_an_endpoint_that_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsInvalidError):
        Bucket(BucketUrl("bucket"), S3Settings(endpoint_url=url))


def test_a_profile_that_does_not_exist_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(SettingsInvalidError, match="nobody"):
        Bucket(BucketUrl("bucket"), S3Settings())


def test_restore_imports_nothing_heavy() -> None:
    code = (
        "import sys, baseload_storage.restore; print({'torch', 'huggingface_hub', 'vllm'} & set(sys.modules))"
    )
    told = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
