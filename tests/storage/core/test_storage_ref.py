"""References: what is taken, what is refused, and that nothing is lost on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_storage.core.ref import BucketUrl, SnapshotRef
from baseload_storage.errors import ReferenceInvalidError

DIGEST = "blake3:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("s3://models/llm", SnapshotRef(BucketUrl("models"), "llm", "latest")),
        ("s3://models/team/a/llm:prod", SnapshotRef(BucketUrl("models", "team/a"), "llm", "prod")),
        (f"s3://models/llm@{DIGEST}", SnapshotRef(BucketUrl("models"), "llm", digest=DIGEST)),
        (
            "s3://my.bucket-1/smollm2-135m:v1.0_b",
            SnapshotRef(BucketUrl("my.bucket-1"), "smollm2-135m", "v1.0_b"),
        ),
    ],
)
def test_a_reference_is_taken_apart(text: str, ref: SnapshotRef) -> None:
    assert SnapshotRef.parse(text) == ref


@pytest.mark.parametrize(
    "text",
    [
        "",
        "llm",
        "s3:/models/llm",
        "https://models/llm",
        "s3://models",
        "s3://models/",
        "s3://Models/llm",
        "s3://models/LLM",
        "s3://models/llm:",
        "s3://models/llm:a/b",
        "s3://models/llm:.hidden",
        "s3://models/llm@blake3:123",
        f"s3://models/llm@{DIGEST.upper()}",
        f"s3://models/llm:prod@{DIGEST}",
        "s3://models/../llm",
        "s3://models//llm",
        "s3://models/a/./llm",
        "s3://models/llm\n",
        "s3://m/llm",
    ],
)
def test_what_is_no_reference_is_refused_by_name(text: str) -> None:
    with pytest.raises(ReferenceInvalidError, match="write s3://"):
        SnapshotRef.parse(text)


@pytest.mark.parametrize("text", ["s3://models", "s3://models/", "s3://models/a/b", "s3://models/a/b/"])
def test_a_bucket_url_may_end_in_a_slash(text: str) -> None:
    assert str(BucketUrl.parse(text)) == text.rstrip("/")


names = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,20}[a-z0-9])?", fullmatch=True)
prefixes = st.lists(st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,8}", fullmatch=True), max_size=3).map(
    "/".join
)
tags = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)
refs = st.builds(SnapshotRef, st.builds(BucketUrl, st.just("models"), prefixes), names, tags) | st.builds(
    SnapshotRef, st.builds(BucketUrl, st.just("models"), prefixes), names, digest=st.just(DIGEST)
)


@given(refs)
def test_what_is_written_reads_back_as_the_same(ref: SnapshotRef) -> None:
    assert SnapshotRef.parse(str(ref)) == ref


@given(st.text(max_size=60))
def test_any_text_is_either_taken_or_refused(text: str) -> None:
    try:
        ref = SnapshotRef.parse(text)
    except ReferenceInvalidError:
        return
    assert SnapshotRef.parse(str(ref)) == ref


def test_a_tag_or_name_with_a_slash_never_makes_another_snapshot() -> None:
    for name, tag in (("llm/x", "prod"), ("llm", "a/b"), ("llm:x", "prod"), ("", "prod"), ("x", "p@q")):
        with pytest.raises(ReferenceInvalidError):
            SnapshotRef.tagged(BucketUrl("models"), name, tag)


def test_a_pinned_reference_keeps_bucket_and_name() -> None:
    ref = SnapshotRef.parse("s3://models/a/llm:prod")
    assert str(ref.at(DIGEST)) == f"s3://models/a/llm@{DIGEST}"
