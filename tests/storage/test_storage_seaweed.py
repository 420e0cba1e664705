"""The embedded store: on loopback only, closed to strangers, and gone after a stop."""

from pathlib import Path

import psutil
import pytest

from baseload_local.object_store import ObjectStore
from baseload_local.state import Credentials
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.errors import AccessDeniedError
from baseload_storage.snapshots import SnapshotStore
from support.seaweed import StoreAddress

pytestmark = pytest.mark.store

KEYS = Credentials("a" * 20, "b" * 40)


def test_it_listens_on_loopback_only_keeps_its_data_and_stops(tmp_path: Path, model: Path) -> None:
    for attempt in ("first", "second"):
        store = ObjectStore.start(tmp_path / "data", tmp_path / "log", KEYS)
        try:
            listeners = [
                getattr(each.laddr, "ip", "")
                for each in psutil.net_connections("tcp")
                if each.pid == store.process.pid and each.status == psutil.CONN_LISTEN
            ]
            address = StoreAddress(store.endpoint_url, KEYS.access_key, KEYS.secret_key, "bucket")
            snapshots = SnapshotStore.open("s3://bucket", address.settings())
            snapshots.ensure_bucket()
            if attempt == "first":
                snapshots.push_folder(model, "llm")
            assert snapshots.exists(SnapshotRef.parse("s3://bucket/llm"))
        finally:
            store.stop()
        assert set(listeners) == {"127.0.0.1"}
        assert store.process.returncode is not None


def test_it_refuses_wrong_keys(object_store: StoreAddress) -> None:
    for access, secret in ((object_store.access_key, "wrong"), ("wrong", object_store.secret_key)):
        stranger = StoreAddress(object_store.endpoint_url, access, secret, object_store.bucket)
        with pytest.raises(AccessDeniedError):
            SnapshotStore.open(f"s3://{object_store.bucket}", stranger.settings()).snapshots()
