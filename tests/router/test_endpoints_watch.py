"""The endpoints file as it changes under a running router."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from baseload_router.core.target import target_of
from baseload_router.directory import Directory
from baseload_router.watch import EndpointsWatch

SMALL = target_of("http://small-predictor.ns.svc.cluster.local/openai/v1")
OTHER = target_of("http://elsewhere:9000/openai/v1")


@pytest.fixture
def directory() -> Directory:
    return Directory([SMALL, OTHER], 256, is_file_used=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "endpoints.json"


@pytest.fixture
def watch(directory: Directory, path: Path) -> EndpointsWatch:
    return EndpointsWatch(path, directory)


def write(path: Path, services: dict[str, list[str]], **more: Any) -> None:
    """Replace the file as its writer does: a new file renamed over the old."""
    listed = {name: {"endpoints": [{"url": url, **more} for url in urls]} for name, urls in services.items()}
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"version": 1, "services": listed}))
    fresh.rename(path)


def known(directory: Directory) -> list[tuple[str, str, int]]:
    return [(service.name, endpoint.name, endpoint.capacity) for service, endpoint in directory.endpoints()]


def test_nothing_is_known_until_the_file_is_there(
    directory: Directory, watch: EndpointsWatch, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch.poll()
    watch.poll()
    assert list(directory.endpoints()) == []
    assert [record.message for record in caplog.records] == ["endpoints file cannot be read"]
    write(path, {"small-predictor": ["http://127.0.0.1:1"]})
    watch.poll()
    assert {service.name for service, _ in directory.endpoints()} == {"small-predictor", "elsewhere"}


def test_a_service_is_found_by_its_first_label_and_an_unlisted_one_by_its_own_host(
    directory: Directory, watch: EndpointsWatch, path: Path
) -> None:
    write(path, {"small-predictor": ["http://127.0.0.1:1"]}, capacity=3)
    watch.poll()
    assert known(directory) == [("small-predictor", "127.0.0.1:1", 3), ("elsewhere", "elsewhere:9000", 256)]


def test_the_full_host_comes_before_its_first_label(
    directory: Directory, watch: EndpointsWatch, path: Path
) -> None:
    write(path, {"small-predictor": ["http://a:1"], SMALL.host: ["http://b:2"]})
    watch.poll()
    assert known(directory)[0][1] == "b:2"


def test_a_change_is_taken_over_and_what_stays_keeps_its_load(
    directory: Directory, watch: EndpointsWatch, path: Path
) -> None:
    write(path, {"small-predictor": ["http://a:1", "http://a:2"]})
    watch.poll()
    kept = directory.service(SMALL).endpoints[1]
    kept.in_flight = 5
    write(path, {"small-predictor": ["http://a:2", "http://a:3"]}, capacity=9)
    watch.poll()
    endpoints = directory.service(SMALL).endpoints
    assert [endpoint.name for endpoint in endpoints] == ["a:2", "a:3"]
    assert endpoints[0] is kept
    assert (kept.in_flight, kept.capacity) == (5, 9)


def test_an_unchanged_file_is_not_read_again(
    watch: EndpointsWatch, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(path, {"small-predictor": ["http://a:1"]})
    with caplog.at_level(logging.INFO):
        watch.poll()
        watch.poll()
    assert [record.message for record in caplog.records] == ["endpoints file read"]


@pytest.mark.parametrize(
    "content", ["", "{", '{"version": 2, "services": {}}', '{"version": 1, "service": {}}']
)
def test_a_bad_file_changes_nothing_and_says_why_once(
    directory: Directory, path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    watch = EndpointsWatch(path, directory)
    write(path, {"small-predictor": ["http://a:1"]})
    watch.poll()
    before = known(directory)
    path.write_text(content)
    watch.poll()
    watch.poll()
    assert known(directory) == before
    (refused,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert refused.message == "endpoints file refused, the old one stays"
    assert refused.__dict__["fields"]["detail"]


def test_a_file_that_vanishes_leaves_the_last_endpoints(
    directory: Directory, watch: EndpointsWatch, path: Path
) -> None:
    write(path, {"small-predictor": ["http://a:1"]})
    watch.poll()
    before = known(directory)
    path.unlink()
    watch.poll()
    assert known(directory) == before
