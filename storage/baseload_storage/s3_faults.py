"""boto3's errors as this package's: each says which store or object failed, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)
from urllib3.exceptions import HTTPError

from baseload_storage.errors import (
    AccessDeniedError,
    BucketMissingError,
    ObjectMissingError,
    ObjectShortError,
    PreconditionFailedError,
    SettingsInvalidError,
    StorageError,
    StoreUnreachableError,
    StoreUnsafeError,
    TransferCutError,
    WriteConflictError,
)

_CODES: dict[str, tuple[type[StorageError], str]] = {
    **dict.fromkeys(
        ("AccessDenied", "Forbidden", "403"),
        (AccessDeniedError, "{store} refuses access to {where}: check the access key and its rights"),
    ),
    "InvalidAccessKeyId": (
        AccessDeniedError,
        "{store} does not know the access key: check AWS_ACCESS_KEY_ID",
    ),
    "SignatureDoesNotMatch": (
        AccessDeniedError,
        "{store} rejects the secret key: check AWS_SECRET_ACCESS_KEY",
    ),
    "ExpiredToken": (AccessDeniedError, "{store}: the session token has expired; get a new one"),
    "RequestTimeTooSkewed": (AccessDeniedError, "{store}: this machine's clock is wrong; set it"),
    "NoSuchBucket": (BucketMissingError, "{store} has no bucket {bucket}; create it, or check the name"),
    **dict.fromkeys(("NoSuchKey", "404", "NotFound"), (ObjectMissingError, "{where} is not there")),
    **dict.fromkeys(("InvalidRange", "416"), (ObjectShortError, "{where} is shorter than it was")),
    **dict.fromkeys(
        ("PreconditionFailed", "412"),
        (PreconditionFailedError, "{where} has changed in the meantime"),
    ),
    "ConditionalRequestConflict": (WriteConflictError, "{where} is being written by another; try again"),
    "BucketAlreadyOwnedByYou": (PreconditionFailedError, "{store} has the bucket {bucket} already"),
    "NotImplemented": (
        StoreUnsafeError,
        "{store} lacks a function that snapshots need ({why}); use a store with conditional writes",
    ),
    **dict.fromkeys(
        ("AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException", "301"),
        (
            SettingsInvalidError,
            "{store}: bucket {bucket} is in another region; set AWS_DEFAULT_REGION ({why})",
        ),
    ),
}
_NO_CONNECTION = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError)
_CUT = (ReadTimeoutError, ConnectionClosedError, ResponseStreamingError, IncompleteReadError, HTTPError)


@contextmanager
def translated(store: str, bucket: str, where: str) -> Iterator[None]:
    """Raises StorageError for what boto3 raises inside. where: the object, as messages name it."""
    try:
        yield
    except ClientError as error:
        raise _refusal(error, store, bucket, where) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise AccessDeniedError(
            f"no credentials for {store}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except SSLError as error:
        raise StoreUnreachableError(
            f"the certificate of {store} is not trusted: {error}; set AWS_CA_BUNDLE"
        ) from error
    except _NO_CONNECTION as error:
        raise StoreUnreachableError(
            f"the object store {store} does not answer: {error}; check AWS_ENDPOINT_URL"
        ) from error
    except _CUT as error:
        raise TransferCutError(f"{store} broke off in {where}: {error}") from error
    except BotoCoreError as error:
        raise StorageError(f"{store}: {error}") from error


def _refusal(error: ClientError, store: str, bucket: str, where: str) -> StorageError:
    told = error.response.get("Error", {})
    code, why = str(told.get("Code", "")), str(told.get("Message", ""))
    if code in _CODES:
        kind, text = _CODES[code]
        return kind(text.format(store=store, bucket=bucket, where=where, why=why))
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = StoreUnreachableError if status >= 500 else StorageError
    return kind(f"{store} answers {where} with {code}: {why}")
