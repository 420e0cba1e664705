"""A real S3 server for tests: SeaweedFS on loopback, one for the whole run.

A conftest takes the fixtures with ``from support.seaweed import object_store as object_store``.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config
from pydantic import SecretStr

from baseload_local.object_store import ObjectStore
from baseload_local.state import Credentials
from baseload_storage.settings import S3Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REGION = "us-east-1"


@dataclass(frozen=True)
class StoreAddress:
    """A running store, its keys, and a bucket that exists."""

    endpoint_url: str
    access_key: str
    secret_key: str
    bucket: str

    def settings(self) -> S3Settings:
        return S3Settings(
            endpoint_url=self.endpoint_url,
            region=REGION,
            access_key=SecretStr(self.access_key),
            secret_key=SecretStr(self.secret_key),
        )

    @cached_property
    def client(self) -> "S3Client":
        """boto3's own client, to look behind the store's back and to spoil what lies there."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}),
        )

    def new_url(self) -> str:
        """A bucket URL below which nothing lies yet."""
        return f"s3://{self.bucket}/{uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreAddress]:
    """SeaweedFS with generated keys, its data in a temporary folder; always stopped."""
    folder = tmp_path_factory.mktemp("seaweed")
    keys = Credentials(secrets.token_hex(10), secrets.token_hex(20))
    store = ObjectStore.start(folder / "data", folder / "log", keys)
    try:
        address = StoreAddress(store.endpoint_url, keys.access_key, keys.secret_key, "baseload-tests")
        address.client.create_bucket(Bucket=address.bucket)
        yield address
    finally:
        store.stop()
