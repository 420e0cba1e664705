"""The few S3 calls that snapshots need, with this package's errors.

What is uploaded carries its SHA-256 in a header, never in a trailer: some stores keep a trailer's framing
inside the object.
"""

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from baseload_storage.core.manifest import MAX_MANIFEST
from baseload_storage.core.ref import BucketUrl
from baseload_storage.errors import (
    BucketMissingError,
    ObjectMissingError,
    PreconditionFailedError,
    SettingsInvalidError,
    SnapshotCorruptError,
    TransferCutError,
    WriteConflictError,
)
from baseload_storage.s3_faults import translated
from baseload_storage.settings import S3Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_CONNECTIONS = 16
DEFAULT_REGION = "us-east-1"
STEP = 1024 * 1024
MAX_WHOLE = MAX_MANIFEST
"""What is read in one piece, bytes: nothing that a snapshot has is larger."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's bytes and its version."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Head:
    """What a store says of an object. ``sha256``: base64, None where the store keeps none."""

    size: int
    etag: str
    sha256: str | None


class Bucket:
    """One bucket and prefix. Safe to use from several threads."""

    def __init__(self, url: BucketUrl, settings: S3Settings) -> None:
        self.url = url
        self._store = settings.endpoint_url or "AWS"
        self._client = _client(settings)

    def ensure(self) -> None:
        """Create the bucket if it is missing."""
        try:
            with self._translated(""):
                self._client.head_bucket(Bucket=self.url.bucket)
        except (ObjectMissingError, BucketMissingError):
            self._create()

    @retry(
        retry=retry_if_exception_type(TransferCutError),
        stop=stop_after_attempt(3),
        wait=wait_random_exponential(multiplier=0.1, max=1),
        reraise=True,
    )
    def get(self, key: str, limit: int = MAX_WHOLE) -> Stored:
        """A whole object of up to ``limit`` bytes; raises SnapshotCorruptError for a larger one."""
        with self._translated(key):
            reply = self._client.get_object(Bucket=self.url.bucket, Key=self._key(key))
            with closing(reply["Body"]) as body:
                if reply["ContentLength"] > limit:
                    raise SnapshotCorruptError(f"{self.where(key)} is larger than {limit} bytes")
                return Stored(body.read(), reply["ETag"])

    @contextmanager
    def reading(self, key: str, offset: int, length: int) -> Iterator[Callable[[memoryview], int]]:
        """A function that fills a buffer with the next bytes of a range and returns how many came.

        They are fewer than the buffer holds only at the end of the object.
        """
        last = offset + length - 1
        with self._translated(key):
            reply = self._client.get_object(
                Bucket=self.url.bucket, Key=self._key(key), Range=f"bytes={offset}-{last}"
            )
            with closing(reply["Body"]) as body:
                yield lambda buffer: _fill(buffer, body.read)

    def put_new(self, key: str, data: bytes) -> None:
        """Raises PreconditionFailedError if the object exists."""
        self._put(key, data, IfNoneMatch="*")

    def put_over(self, key: str, data: bytes, etag: str) -> None:
        """Raises PreconditionFailedError if the object is no longer the one with ``etag``."""
        self._put(key, data, IfMatch=etag)

    def head(self, key: str) -> Head:
        with self._translated(key):
            reply = self._client.head_object(
                Bucket=self.url.bucket, Key=self._key(key), ChecksumMode="ENABLED"
            )
            return Head(reply["ContentLength"], reply["ETag"], reply.get("ChecksumSHA256"))

    def delete(self, key: str) -> None:
        with self._translated(key):
            self._client.delete_object(Bucket=self.url.bucket, Key=self._key(key))

    def keys(self, prefix: str) -> list[str]:
        """All keys that start with ``prefix``, without the bucket's own prefix."""
        return list(self.sizes(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of every object whose key starts with ``prefix``, by key without the bucket's prefix."""
        own = self._key("")
        pages = self._client.get_paginator("list_objects_v2")
        with self._translated(prefix):
            found = [
                (str(entry.get("Key")), entry.get("Size", 0))
                for page in pages.paginate(Bucket=self.url.bucket, Prefix=self._key(prefix))
                for entry in page.get("Contents", ())
            ]
        return {key.removeprefix(own): size for key, size in found}

    def where(self, key: str) -> str:
        """The object as messages name it."""
        return f"{self.url}/{key}".rstrip("/")

    def _create(self) -> None:
        region = self._client.meta.region_name
        away: Any = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        try:
            with self._translated(""):
                self._client.create_bucket(
                    Bucket=self.url.bucket, **(away if region != DEFAULT_REGION else {})
                )
        except PreconditionFailedError:
            return  # made by another process in the meantime

    @retry(
        retry=retry_if_exception_type(WriteConflictError),
        stop=stop_after_attempt(4),
        wait=wait_random_exponential(multiplier=0.1, max=1),
        reraise=True,
    )
    def _put(self, key: str, data: bytes, **condition: Any) -> None:
        with self._translated(key):
            self._client.put_object(
                Bucket=self.url.bucket,
                Key=self._key(key),
                Body=data,
                ChecksumSHA256=sha256_of(data),
                **condition,
            )

    def _key(self, key: str) -> str:
        return f"{self.url.prefix}/{key}" if self.url.prefix else key

    def _translated(self, key: str) -> AbstractContextManager[None]:
        return translated(self._store, self.url.bucket, self.where(key))


def sha256_of(data: bytes) -> str:
    """As S3 writes it: base64."""
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


def _fill(buffer: memoryview, read: Callable[[int], bytes]) -> int:
    """``read`` into the buffer until it is full or the body ends; small steps keep the copies small."""
    filled = 0
    while filled < len(buffer) and (part := read(min(STEP, len(buffer) - filled))):
        buffer[filled : filled + len(part)] = part
        filled += len(part)
    return filled


def _client(settings: S3Settings) -> "S3Client":
    keys = (settings.access_key, settings.secret_key, settings.session_token)
    access, secret, token = (key.get_secret_value() if key else None for key in keys)
    style: Literal["virtual", "path", "auto"] = "path" if settings.endpoint_url else "auto"
    style = "virtual" if settings.virtual_bucket else style
    try:
        session = boto3.session.Session(access, secret, token)
        return session.client(
            "s3",
            region_name=settings.region or session.region_name or DEFAULT_REGION,
            endpoint_url=settings.endpoint_url,
            verify=_verify(settings),
            config=Config(
                connect_timeout=settings.connect_timeout,
                read_timeout=settings.read_timeout,
                retries={"mode": "standard", "total_max_attempts": 3},
                max_pool_connections=MAX_CONNECTIONS,
                s3={"addressing_style": style},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise SettingsInvalidError(f"the object store's settings: {error}") from error


def _verify(settings: S3Settings) -> bool | str:
    bundle = settings.ca_bundle
    return str(bundle) if bundle and settings.verify_ssl else settings.verify_ssl
