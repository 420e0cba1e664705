"""A new folder takes the place of an old one: whatever ends that moment, one whole folder is left."""

from pathlib import Path

import pytest

from baseload_storage.core.manifest import READY
from baseload_storage.restore import restore
from support.snapshots import Place, tree

pytestmark = pytest.mark.store


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "node" / "llm"


@pytest.fixture
def digests(place: Place, model: Path) -> tuple[str, str]:
    """Of two versions of a model, the newer one tagged; only the older one has ``run.sh``."""
    old = place.store.push_folder(model, "llm").digest
    (model / "run.sh").unlink()
    return old, place.store.push_folder(model, "llm").digest


def pinned(place: Place, digest: str) -> str:
    return f"{place.url}/llm@{digest}"


def beside(target: Path) -> set[str]:
    return {path.name for path in target.parent.iterdir()} - {f".{target.name}.lock"}


@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_between_the_renames_leaves_the_old_folder(
    place: Place,
    digests: tuple[str, str],
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: type[BaseException],
) -> None:
    restore(pinned(place, digests[0]), target, place.settings)
    before, rename = tree(target), Path.rename

    def interrupted(path: Path, to: Path) -> Path:
        if path.name.endswith(".part"):
            raise how
        return rename(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(how):
            restore(f"{place.url}/llm", target, place.settings)
    assert tree(target) == before
    assert beside(target) == {"llm"}
    assert restore(f"{place.url}/llm", target, place.settings).digest == digests[1]


def test_the_old_folder_of_a_kill_between_the_renames_is_taken_back(
    place: Place, digests: tuple[str, str], target: Path
) -> None:
    first = restore(pinned(place, digests[0]), target, place.settings)
    before = tree(target)
    target.rename(target.with_name(".llm.old"))
    (target.parent / ".llm.part").mkdir()
    again = restore(pinned(place, digests[0]), target, place.settings)
    assert (again.digest, again.bytes_read, again.already_there) == (first.digest, 0, True)
    assert tree(target) == before
    assert beside(target) == {"llm"}


def test_the_old_folder_of_a_kill_after_the_renames_is_removed(
    place: Place, digests: tuple[str, str], target: Path
) -> None:
    restore(pinned(place, digests[0]), target, place.settings)
    restore(pinned(place, digests[0]), target.with_name(".llm.old"), place.settings)
    restore(f"{place.url}/llm", target, place.settings)
    assert (target / READY).read_text() == digests[1]
    assert beside(target) == {"llm", "..llm.old.lock"}


def test_a_link_stays_and_what_it_leads_to_is_replaced(
    place: Place, digests: tuple[str, str], target: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    target.parent.mkdir()
    target.symlink_to(disk / "llm")
    for digest in digests:
        restore(pinned(place, digest), target, place.settings)
        assert target.is_symlink()
        assert (disk / "llm" / READY).read_text() == digest
    assert beside(disk / "llm") == {"llm"}
    assert beside(target) == {"llm"}


def test_a_target_that_ends_in_two_dots_is_the_folder_it_means(
    place: Place, digests: tuple[str, str], target: Path
) -> None:
    restore(f"{place.url}/llm", target / "nothing" / "..", place.settings)
    assert (target / READY).read_text() == digests[1]
    assert beside(target) == {"llm"}
