"""A model to push, and a place in a real store for each test."""

from pathlib import Path

import pytest

from support.seaweed import StoreAddress, object_store
from support.snapshots import Place, write_weights

__all__ = ["model", "object_store", "place"]


@pytest.fixture
def place(object_store: StoreAddress) -> Place:
    return Place(object_store)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with all that a snapshot has to keep: weights, an empty file, folders, a script."""
    folder = tmp_path / "model"
    (folder / "tokenizer" / "deep").mkdir(parents=True)
    write_weights(folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer" / "deep" / "vocab.txt").write_text("a\nb\n")
    (folder / "empty.txt").touch()
    (folder / "LICENSE").write_text("Apache-2.0")
    script = folder / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return folder
