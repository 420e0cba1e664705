"""Push, against a real store: what lies there afterwards, what is shared, and who wins."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from baseload_storage.core.manifest import READY
from baseload_storage.core.ref import SnapshotRef
from baseload_storage.errors import (
    AccessDeniedError,
    BucketMissingError,
    ReferenceInvalidError,
    SnapshotMissingError,
    SourceInvalidError,
    TagConflictError,
)
from baseload_storage.restore import restore
from baseload_storage.snapshots import PushResult, SnapshotStore
from support.seaweed import StoreAddress
from support.snapshots import LARGE, SMALL, TENSORS, Place, tree, write_weights

pytestmark = pytest.mark.store


def test_a_push_leaves_packs_a_manifest_and_a_tag_and_no_probe(place: Place, model: Path) -> None:
    result = place.store.push_folder(model, "llm", "prod")
    kinds = [key.split("/")[0] for key in place.held()]
    assert kinds == ["manifests", "packs", "tags"]
    assert place.held("tags/") == ["tags/llm/prod"]
    assert result.digest.removeprefix("blake3:") in place.held("manifests/")[0]
    assert not result.already_there
    assert result.bytes_uploaded == result.bytes_total == sum(len(data) for _, data in tree(model).values())


def test_the_manifest_describes_the_model(place: Place, model: Path) -> None:
    result = place.store.push_folder(model, "llm", origin="hf://org/llm@0123")
    shown = place.store.show(SnapshotRef.parse(f"{place.url}/llm"))
    assert (shown.origin, shown.dtype, shown.licence) == ("hf://org/llm@0123", "U16", "LICENSE")
    assert shown.parameters == TENSORS * SMALL // 2
    assert shown.size == result.bytes_total
    assert [file.path for file in shown.files] == sorted(tree(model))
    assert shown.warmed_with is None


def test_pushing_the_same_content_again_uploads_nothing_and_says_so(place: Place, model: Path) -> None:
    first = place.store.push_folder(model, "llm")
    before = place.held()
    again = place.store.push_folder(model, "llm")
    assert again == PushResult(first.digest, first.files, first.bytes_total, 0, already_there=True)
    assert place.held() == before


def test_only_the_changed_tensor_is_uploaded_though_the_header_grew(place: Place, model: Path) -> None:
    write_weights(model / "model.safetensors", LARGE)
    place.store.push_folder(model, "llm", "v1")
    write_weights(model / "model.safetensors", LARGE, changed=7, metadata={"step": "2" * 1000})
    second = place.store.push_folder(model, "llm", "v2")
    # Five tensors of 3 MiB fit into a chunk of 16 MiB: the changed one takes its two neighbours along.
    assert second.bytes_uploaded <= 3 * LARGE + 4096
    assert second.bytes_uploaded < second.bytes_total / 2
    restore(f"{place.url}/llm:v2", model.parent / "out", place.settings)
    restored = tree(model.parent / "out")
    del restored[READY]
    assert restored == tree(model)


def test_equal_files_of_one_model_are_stored_once(place: Place, model: Path) -> None:
    (model / "copy.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    result = place.store.push_folder(model, "llm")
    assert result.bytes_uploaded < result.bytes_total * 0.51


def test_another_model_of_a_longer_name_shares_nothing_and_hides_nothing(place: Place, model: Path) -> None:
    place.store.push_folder(model, "llm-hf")
    with pytest.raises(SnapshotMissingError, match="llm-hf:latest"):
        place.store.resolve(SnapshotRef.parse(f"{place.url}/llm"))
    place.store.push_folder(model, "llm")
    assert [each.name for each in place.store.snapshots()] == ["llm", "llm-hf"]


def test_snapshots_are_listed_by_name_and_tag(place: Place, model: Path) -> None:
    digests = {tag: place.store.push_folder(model, "llm", tag).digest for tag in ("v2", "prod")}
    place.write("tags/stray", b"not a tag")
    listed = place.store.snapshots()
    assert [(each.name, each.tag, each.digest) for each in listed] == [
        ("llm", "prod", digests["prod"]),
        ("llm", "v2", digests["v2"]),
    ]
    assert listed[0].as_dict()["files"] == 6


def test_what_is_missing_is_told_with_what_there_is(place: Place, model: Path) -> None:
    ref = SnapshotRef.parse(f"{place.url}/llm:prod")
    with pytest.raises(SnapshotMissingError, match="has none"):
        place.store.resolve(ref)
    assert not place.store.exists(ref)
    place.store.push_folder(model, "llm", "v1")
    with pytest.raises(SnapshotMissingError, match="llm:v1"):
        place.store.resolve(ref)
    assert place.store.exists(SnapshotRef.parse(f"{place.url}/llm:v1"))


@pytest.mark.parametrize(("name", "tag"), [("LLM", "latest"), ("a/b", "latest"), ("llm", "a b"), ("..", "x")])
def test_a_name_that_no_reference_could_name_is_refused(
    place: Place, model: Path, name: str, tag: str
) -> None:
    with pytest.raises(ReferenceInvalidError):
        place.store.push_folder(model, name, tag)
    assert place.held() == []


def test_a_refused_folder_leaves_nothing_in_the_store(place: Place, model: Path) -> None:
    (model / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(SourceInvalidError):
        place.store.push_folder(model, "llm")
    assert place.held() == []


def test_a_file_that_changes_while_it_is_read_is_refused_and_not_tagged(place: Place, model: Path) -> None:
    def shrink(done: int, total: int) -> None:
        (model / "run.sh").write_text("")

    def grow(done: int, total: int) -> None:
        (model / "run.sh").write_text("x" * 100)

    for change, told in ((shrink, "shorter"), (grow, "longer")):
        (model / "run.sh").write_text("#!/bin/sh\n")
        with pytest.raises(SourceInvalidError, match=f"run.sh became {told}"):
            place.store.push_folder(model, "llm", progress=change)
    assert place.held("tags/") == place.held("manifests/") == []


def test_of_two_pushers_at_once_one_wins_and_the_other_is_told(
    place: Place, model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"other": true}')
    both_have_begun = threading.Barrier(2, timeout=60)

    def push(folder: Path) -> PushResult | TagConflictError:
        waited: list[bool] = []

        def progress(done: int, total: int) -> None:
            if not waited:
                waited.append(True)
                both_have_begun.wait()

        try:
            return place.store.push_folder(folder, "llm", progress=progress)
        except TagConflictError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(push, (model, other)))
    won = [each for each in outcomes if isinstance(each, PushResult)]
    told = [each for each in outcomes if isinstance(each, TagConflictError)]
    assert (len(won), len(told)) == (1, 1)
    assert "moved by another push" in str(told[0])
    assert place.store.resolve(SnapshotRef.parse(f"{place.url}/llm")) == won[0].digest
    assert len(place.held("manifests/")) == 2


def test_two_pushers_of_the_same_content_both_succeed(place: Place, model: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: place.store.push_folder(model, "llm"), range(2)))
    assert len({each.digest for each in results}) == 1
    assert len(place.held("packs/")) == 1


def test_a_tag_moved_since_the_push_began_is_not_overwritten(
    place: Place, model: Path, tmp_path: Path
) -> None:
    place.store.push_folder(model, "llm")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"other": true}')
    theirs: list[str] = []

    def move_meanwhile(done: int, total: int) -> None:
        if not theirs:
            theirs.append(place.store.push_folder(other, "llm").digest)

    (model / "config.json").write_text('{"mine": true}')
    with pytest.raises(TagConflictError):
        place.store.push_folder(model, "llm", progress=move_meanwhile)
    assert place.store.resolve(SnapshotRef.parse(f"{place.url}/llm")) == theirs[0]


def test_progress_ends_at_all_bytes(place: Place, model: Path) -> None:
    seen: list[tuple[int, int]] = []
    result = place.store.push_folder(model, "llm", progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (result.bytes_total, result.bytes_total)


@pytest.mark.parametrize("damage", ["truncated", "deleted"])
def test_a_push_mends_a_pack_that_the_store_lost(place: Place, model: Path, damage: str) -> None:
    first = place.store.push_folder(model, "llm")
    pack = place.held("packs/")[0]
    if damage == "truncated":
        place.write(pack, place.read(pack)[:1000])
    else:
        place.delete(pack)
    again = place.store.push_folder(model, "llm")
    assert again.digest == first.digest
    assert again.bytes_uploaded > 0
    assert restore(f"{place.url}/llm", model.parent / "out", place.settings).digest == first.digest


def test_a_push_mends_a_tag_and_a_manifest_that_are_corrupt(place: Place, model: Path) -> None:
    first = place.store.push_folder(model, "llm")
    place.write("tags/llm/latest", b"{")
    place.write(place.held("manifests/")[0], b"{}")
    assert place.store.push_folder(model, "llm").digest == first.digest
    assert place.store.resolve(SnapshotRef.parse(f"{place.url}/llm")) == first.digest
    assert place.store.exists(SnapshotRef.parse(f"{place.url}/llm"))


@pytest.mark.parametrize(
    ("key", "secret", "told"),
    [(None, "wrong", "AWS_SECRET_ACCESS_KEY"), ("unknown", None, "AWS_ACCESS_KEY_ID")],
)
def test_wrong_keys_are_told_apart(
    object_store: StoreAddress, place: Place, model: Path, key: str | None, secret: str | None, told: str
) -> None:
    wrong = StoreAddress(
        object_store.endpoint_url,
        key or object_store.access_key,
        secret or object_store.secret_key,
        object_store.bucket,
    )
    with pytest.raises(AccessDeniedError, match=told):
        SnapshotStore.open(place.url, wrong.settings()).push_folder(model, "llm")
    assert place.held() == []


def test_a_missing_bucket_is_named_and_not_made(object_store: StoreAddress, model: Path) -> None:
    store = SnapshotStore.open("s3://no-such-bucket", object_store.settings())
    with pytest.raises(BucketMissingError, match="no-such-bucket"):
        store.push_folder(model, "llm")
    with pytest.raises(BucketMissingError, match="no-such-bucket"):
        store.snapshots()


def test_a_bucket_is_made_when_asked_for_once_and_again(object_store: StoreAddress, model: Path) -> None:
    store = SnapshotStore.open("s3://made-on-demand", object_store.settings())
    store.ensure_bucket()
    store.ensure_bucket()
    assert store.snapshots() == []
    assert store.push_folder(model, "llm").files == 6
