"""The few S3 calls that snapshots need, with this package's errors.

boto3 is asked for no checksum trailers: some stores keep their framing inside the object. Integrity comes
from the digests instead.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)
from urllib3.exceptions import HTTPError

from baseload_storage.core.ref import BucketUrl
from baseload_storage.errors import (
    AccessDeniedError,
    BucketMissingError,
    ObjectMissingError,
    PreconditionFailedError,
    StorageError,
    StoreUnreachableError,
)
from baseload_storage.settings import S3Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MAX_CONNECTIONS = 16
DENIED = {"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "Forbidden", "403", "ExpiredToken"}
MISSING = {"NoSuchKey", "404", "NotFound"}
LOST = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
UNREACHABLE = (
    *(EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError, ConnectionClosedError),
    *(ProxyConnectionError, ResponseStreamingError, IncompleteReadError, HTTPError),
)


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's bytes and its version."""

    data: bytes
    etag: str


class Bucket:
    """One bucket and prefix. Safe to use from several threads."""

    def __init__(self, url: BucketUrl, settings: S3Settings) -> None:
        self.url = url
        self._endpoint = settings.endpoint_url or "AWS"
        self._client = _client(settings)

    def ensure(self) -> None:
        """Create the bucket if it is missing."""
        try:
            with self._translated(""):
                self._client.head_bucket(Bucket=self.url.bucket)
        except (ObjectMissingError, BucketMissingError):
            with self._translated(""):
                self._client.create_bucket(Bucket=self.url.bucket)

    def get(self, key: str) -> Stored:
        with self._translated(key):
            reply = self._client.get_object(Bucket=self.url.bucket, Key=self._key(key))
            return Stored(reply["Body"].read(), reply["ETag"])

    @contextmanager
    def reading(self, key: str, offset: int, length: int) -> Iterator[Callable[[int], bytes]]:
        """A function that reads the next n bytes of a range; it returns fewer only at the end."""
        with self._translated(key):
            reply = self._client.get_object(
                Bucket=self.url.bucket, Key=self._key(key), Range=f"bytes={offset}-{offset + length - 1}"
            )
            body = reply["Body"]
            try:
                yield lambda size: _read_exactly(body.read, size)
            finally:
                body.close()

    def put_new(self, key: str, data: bytes) -> None:
        """Raises PreconditionFailedError if the object exists."""
        self._put(key, data, IfNoneMatch="*")

    def put_over(self, key: str, data: bytes, etag: str) -> None:
        """Raises PreconditionFailedError if the object is no longer the one with ``etag``."""
        self._put(key, data, IfMatch=etag)

    def size(self, key: str) -> int:
        with self._translated(key):
            return self._client.head_object(Bucket=self.url.bucket, Key=self._key(key))["ContentLength"]

    def delete(self, key: str) -> None:
        with self._translated(key):
            self._client.delete_object(Bucket=self.url.bucket, Key=self._key(key))

    def keys(self, prefix: str) -> list[str]:
        """All keys that start with ``prefix``, without the bucket's own prefix."""
        own = self._key("")
        pages = self._client.get_paginator("list_objects_v2")
        with self._translated(prefix):
            found = [
                str(entry.get("Key"))
                for page in pages.paginate(Bucket=self.url.bucket, Prefix=self._key(prefix))
                for entry in page.get("Contents", ())
            ]
        return [key.removeprefix(own) for key in found]

    def _put(self, key: str, data: bytes, **condition: Any) -> None:
        with self._translated(key):
            self._client.put_object(Bucket=self.url.bucket, Key=self._key(key), Body=data, **condition)

    def _key(self, key: str) -> str:
        return f"{self.url.prefix}/{key}" if self.url.prefix else key

    @contextmanager
    def _translated(self, key: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            raise self._refusal(error, key) from error
        except NoCredentialsError as error:
            raise AccessDeniedError(
                f"no credentials for {self._endpoint}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from error
        except SSLError as error:
            raise StoreUnreachableError(
                f"the certificate of {self._endpoint} is not trusted: {error}; set AWS_CA_BUNDLE"
            ) from error
        except UNREACHABLE as error:
            raise StoreUnreachableError(
                f"the object store {self._endpoint} does not answer: {error}"
            ) from error
        except BotoCoreError as error:
            raise StorageError(f"{self._endpoint}: {error}") from error

    def _refusal(self, error: ClientError, key: str) -> StorageError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        where = f"{self.url}/{key}".rstrip("/")
        if code in DENIED:
            return AccessDeniedError(
                f"{self._endpoint} refuses access to {where} ({code}): check access key, secret and rights"
            )
        if code == "NoSuchBucket":
            return BucketMissingError(
                f"{self._endpoint} has no bucket {self.url.bucket}; create it, or check the name"
            )
        if code in MISSING:
            return ObjectMissingError(f"{where} is not there")
        if code in LOST:
            return PreconditionFailedError(f"{where} has changed in the meantime")
        if code in {"RequestTimeTooSkewed"}:
            return AccessDeniedError(f"{self._endpoint}: this machine's clock is wrong ({code}); set it")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        kind = StoreUnreachableError if status >= 500 else StorageError
        return kind(f"{self._endpoint} answers {where} with {code}: {error}")


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    """``read`` until ``size`` bytes have come or the body ends."""
    parts: list[bytes] = []
    while size > 0 and (part := read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _client(settings: S3Settings) -> "S3Client":
    keys = (settings.access_key, settings.secret_key, settings.session_token)
    access, secret, token = (key.get_secret_value() if key else None for key in keys)
    style: Literal["virtual", "path", "auto"] = "path" if settings.endpoint_url else "auto"
    style = "virtual" if settings.virtual_bucket else style
    return boto3.session.Session(access, secret, token, region_name=settings.region or "us-east-1").client(
        "s3",
        endpoint_url=settings.endpoint_url,
        verify=settings.ca_bundle or settings.verify_ssl,
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
