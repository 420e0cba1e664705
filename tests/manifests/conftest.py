"""A copy of the shipped manifests that a test may spoil."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

MANIFESTS = Path(__file__).parents[2] / "manifests"
Overlay = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MANIFESTS / "base", tmp_path / "base"))


@pytest.fixture
def overlay(base: Path) -> Overlay:
    """Writes an overlay over the base: files by name, all of them patches unless it has a kustomization."""

    def write(files: Mapping[str, str]) -> Path:
        folder = base.parent / "overlay"
        folder.mkdir()
        patches = "".join(f"  - path: {name}\n" for name in files)
        default = {"kustomization.yaml": f"resources:\n  - ../base\npatches:\n{patches}"}
        for name, text in {**default, **files}.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder

    return write
