"""Stores that do not keep their promises, and links that break: found, told, tried again where it helps."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import NoCredentialsError, SSLError

from baseload_storage.core.ref import BucketUrl, SnapshotRef
from baseload_storage.errors import (
    AccessDeniedError,
    BucketMissingError,
    PreconditionFailedError,
    SettingsInvalidError,
    SnapshotCorruptError,
    StorageError,
    StoreUnreachableError,
    StoreUnsafeError,
    TransferCutError,
    WriteConflictError,
)
from baseload_storage.restore import restore
from baseload_storage.s3 import Bucket
from baseload_storage.s3_faults import translated
from baseload_storage.snapshots import SnapshotStore
from support.s3_stand_in import BUCKET, StandIn, run_stand_in

URL = f"s3://{BUCKET}"
REF = f"{URL}/llm"


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with run_stand_in() as running:
        yield running


@pytest.fixture
def store(stand_in: StandIn) -> SnapshotStore:
    return SnapshotStore.open(URL, stand_in.settings())


def test_a_store_without_checksums_is_read_back(stand_in: StandIn, store: SnapshotStore, model: Path) -> None:
    store.push_folder(model, "llm")
    for kind in ("packs", "manifests"):
        assert any(request.startswith(f"GET /{BUCKET}/{kind}/") for request in stand_in.requests)
    assert restore(REF, model.parent / "out", stand_in.settings()).bytes_read > 0


@pytest.mark.parametrize("ignored", [("If-None-Match",), ("If-Match",), ("If-None-Match", "If-Match")])
def test_a_store_that_ignores_conditions_is_refused_and_left_clean(
    stand_in: StandIn, store: SnapshotStore, model: Path, ignored: tuple[str, ...]
) -> None:
    stand_in.ignores = frozenset(ignored)
    with pytest.raises(StoreUnsafeError, match=f"ignores {' and '.join(ignored)};"):
        store.push_folder(model, "llm")
    assert stand_in.objects == {}


def test_a_store_that_lacks_conditions_says_so(stand_in: StandIn, store: SnapshotStore, model: Path) -> None:
    stand_in.failures = [(501, "NotImplemented")] * 3
    with pytest.raises(StoreUnsafeError, match="conditional writes"):
        store.push_folder(model, "llm")


def test_a_store_that_alters_uploads_is_found_before_anything_names_them(
    stand_in: StandIn, store: SnapshotStore, model: Path
) -> None:
    stand_in.alters = True
    with pytest.raises(SnapshotCorruptError, match="other bytes than were uploaded"):
        store.push_folder(model, "llm")
    assert not any(key.startswith(("manifests/", "tags/")) for key in stand_in.objects)


def test_a_broken_transfer_is_taken_up_again(stand_in: StandIn, store: SnapshotStore, model: Path) -> None:
    store.push_folder(model, "llm")
    stand_in.cut_gets = 2
    digest = restore(REF, model.parent / "out", stand_in.settings()).digest
    assert digest == store.resolve(SnapshotRef.parse(REF))


def test_a_transfer_that_always_breaks_ends_in_one_error(
    stand_in: StandIn, store: SnapshotStore, model: Path, tmp_path: Path
) -> None:
    store.push_folder(model, "llm")
    stand_in.requests.clear()
    stand_in.cut_gets = 1000
    with pytest.raises(TransferCutError, match="packs/"):
        restore(REF, tmp_path / "node" / "out", stand_in.settings())
    assert not (tmp_path / "node" / "out").exists()
    assert 1 < len([request for request in stand_in.requests if "/packs/" in request]) < 10


def test_a_busy_store_is_asked_again(stand_in: StandIn, store: SnapshotStore, model: Path) -> None:
    store.push_folder(model, "llm")
    stand_in.failures = [(503, "SlowDown")] * 2
    assert store.exists(SnapshotRef.parse(REF))


@pytest.mark.parametrize(
    ("status", "code", "kind", "told"),
    [
        (403, "AccessDenied", AccessDeniedError, "rights"),
        (403, "InvalidAccessKeyId", AccessDeniedError, "AWS_ACCESS_KEY_ID"),
        (403, "SignatureDoesNotMatch", AccessDeniedError, "AWS_SECRET_ACCESS_KEY"),
        (403, "RequestTimeTooSkewed", AccessDeniedError, "clock"),
        (404, "NoSuchBucket", BucketMissingError, BUCKET),
        (400, "AuthorizationHeaderMalformed", SettingsInvalidError, "AWS_DEFAULT_REGION"),
        (500, "InternalError", StoreUnreachableError, "InternalError"),
        (418, "Teapot", StorageError, "Teapot"),
    ],
)
def test_each_refusal_has_its_own_message(
    stand_in: StandIn, store: SnapshotStore, status: int, code: str, kind: type[StorageError], told: str
) -> None:
    stand_in.failures = [(status, code)] * 20
    with pytest.raises(kind, match=told) as caught:
        store.resolve(SnapshotRef.parse(REF))
    assert type(caught.value) is kind
    assert str(stand_in.port) in str(caught.value)


def test_missing_keys_and_an_untrusted_certificate_are_told() -> None:
    with pytest.raises(AccessDeniedError, match="AWS_ACCESS_KEY_ID"), translated("store", "b", "s3://b/k"):
        raise NoCredentialsError
    with pytest.raises(StoreUnreachableError, match="AWS_CA_BUNDLE"), translated("store", "b", "s3://b/k"):
        raise SSLError(endpoint_url="https://store", error=ValueError("self-signed"))


def test_a_manifest_that_breaks_off_is_asked_for_again(
    stand_in: StandIn, store: SnapshotStore, model: Path
) -> None:
    store.push_folder(model, "llm")
    stand_in.cut_path, stand_in.cut_gets = "/manifests/", 2
    assert store.exists(SnapshotRef.parse(REF))
    stand_in.cut_gets = 1000
    with pytest.raises(TransferCutError, match="manifests/"):
        store.exists(SnapshotRef.parse(REF))


def test_an_object_larger_than_expected_is_not_read(stand_in: StandIn) -> None:
    stand_in.objects["tags/llm/latest"] = bytes(100)
    bucket = Bucket(BucketUrl(BUCKET), stand_in.settings())
    with pytest.raises(SnapshotCorruptError, match="larger than 99 bytes"):
        bucket.get("tags/llm/latest", 99)
    assert bucket.get("tags/llm/latest", 100).data == bytes(100)


def test_a_write_that_meets_another_is_tried_again_and_the_condition_still_decides(stand_in: StandIn) -> None:
    bucket = Bucket(BucketUrl(BUCKET), stand_in.settings())
    conflict = (409, "ConditionalRequestConflict")
    stand_in.failures = [conflict] * 2
    bucket.put_new("tags/llm/latest", b"mine")
    assert stand_in.objects == {"tags/llm/latest": b"mine"}
    stand_in.failures = [conflict] * 2
    with pytest.raises(PreconditionFailedError, match="has changed in the meantime"):
        bucket.put_over("tags/llm/latest", b"stale", '"of-another-version"')
    stand_in.failures = [conflict] * 20
    with pytest.raises(WriteConflictError, match="tags/llm/prod is being written by another"):
        bucket.put_new("tags/llm/prod", b"never")
    assert len(stand_in.failures) > 10
