"""Renders a kustomize folder as kubectl does, within a subset, and remembers where each field was written.

Supported: ``resources`` (YAML files and folders), ``patches`` (inline or file; strategic merge and
JSON 6902), ``namespace``, and ``openapi.path`` for the merge keys of custom resources.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from os.path import normpath
from pathlib import Path

from baseload_manifests.collect import collecting, raise_any
from baseload_manifests.core.kustomization import (
    UNSUPPORTED,
    Identity,
    Kustomization,
    Patch,
    identity,
    in_namespace,
)
from baseload_manifests.core.merge_keys import BUILT_IN, MergeKeys, read_merge_keys
from baseload_manifests.core.patching import OpenPatch, patched
from baseload_manifests.core.problem import Problem
from baseload_manifests.core.tree import Branch, Leaf, Tree
from baseload_manifests.errors import ManifestError
from baseload_manifests.loader import Document, parse, read_documents, read_mappings, read_text, read_trees

FILE_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def render(folder: Path) -> list[Document]:
    """The objects of a kustomize folder. Raises ManifestError with every fault found."""
    layer = _open(folder, str(folder), "(folder)")
    keys = _merge_keys(layer)
    return [Document.of(tree) for tree in _build(layer, keys, (folder.resolve(),))]


@dataclass(frozen=True, slots=True)
class _Layer:
    """One kustomization.yaml that has been read."""

    folder: Path
    document: Document
    spec: Kustomization

    def refused(self, field: str, reason: str, fix: str) -> ManifestError:
        return _refused(self.document.locate(field), field, reason, fix)

    def inside(self, name: str, field: str) -> Path:
        """The file that a field names. kubectl takes none from outside of the folder."""
        path = Path(normpath(self.folder / name))
        if not path.exists():
            near = get_close_matches(path.name, _names(path.parent), n=1)
            fix = f"write {Path(name).with_name(near[0])}" if near else "create it, or remove the line"
            raise self.refused(field, f"{name} does not exist", fix)
        if not path.resolve().is_relative_to(self.folder.resolve()):
            fix = "move the file into the folder, or name a folder with a kustomization.yaml"
            raise self.refused(field, f"{name} lies outside of {self.folder}", fix)
        return path


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _open(folder: Path, source: str, field: str) -> _Layer:
    """The kustomization.yaml of a folder. source, field: who asks for it."""
    if not folder.is_dir():
        raise _refused(source, field, f"{folder} is not a folder", "name a folder with a kustomization.yaml")
    found = [folder / name for name in FILE_NAMES if (folder / name).is_file()]
    if len(found) != 1:
        raise _refused(source, field, f"{folder} has {len(found)} kustomization.yaml", _advice(folder))
    documents = read_documents(found[0])
    if len(documents) != 1:
        reason = f"holds {len(documents)} documents"
        raise _refused(str(found[0]), "(document)", reason, "keep one, with resources: in it")
    return _Layer(folder, documents[0], _kustomization(documents[0]))


def _advice(folder: Path) -> str:
    files = ", ".join(name for name in _names(folder) if name.endswith((".yaml", ".yml")))
    written = f"add kustomization.yaml with resources: [{files}]" if files else "add one"
    return f"name a kustomize folder such as manifests/overlays/local, or {written}"


def _kustomization(document: Document) -> Kustomization:
    known = ", ".join(sorted(set(Kustomization.model_json_schema()["properties"]) - {"apiVersion", "kind"}))
    problems = [
        Problem(document.locate(field), field, "this field of kustomize is not supported", f"use {known}")
        for field in document.body
        if field in UNSUPPORTED
    ]
    if problems:
        raise ManifestError(problems)
    return parse(Kustomization, document)


def _merge_keys(layer: _Layer) -> MergeKeys:
    if layer.spec.openapi is None:
        return BUILT_IN
    path = layer.inside(layer.spec.openapi.path, "openapi.path")
    try:
        return read_merge_keys(json.loads(read_text(path)))
    except (AttributeError, TypeError, ValueError) as error:
        reason = f"{path} is not an OpenAPI schema: {error}"
        raise layer.refused("openapi.path", reason, "mend the file") from error


def _build(layer: _Layer, keys: MergeKeys, inside: tuple[Path, ...]) -> list[Branch]:
    """inside: the folders that are being built, against endless loops."""
    problems: list[Problem] = []
    trees: list[Branch] = []
    for index, name in enumerate(layer.spec.resources):
        with collecting(problems):
            trees += _resource(layer, name, f"resources[{index}]", keys, inside)
    raise_any([*problems, *_duplicates(trees)])
    for index, patch in enumerate(layer.spec.patches):
        with collecting(problems):
            trees = patched(trees, _opened(layer, patch, f"patches[{index}]"), keys)
    raise_any(problems)
    if layer.spec.namespace is None:
        return trees
    namespace = Leaf(layer.spec.namespace, layer.document.locate("namespace"))
    return [in_namespace(tree, namespace) for tree in trees]


def _resource(
    layer: _Layer, name: str, field: str, keys: MergeKeys, inside: tuple[Path, ...]
) -> list[Branch]:
    if "://" in name or "?ref=" in name or name.startswith("git@"):
        fix = "copy it into this repository and name the copy"
        raise layer.refused(field, f"{name} is remote, and only files and folders are supported", fix)
    folder = Path(normpath(layer.folder / name))
    if folder.is_dir():
        return _build_below(layer, folder, field, keys, inside)
    trees = read_mappings(layer.inside(name, field))
    raise_any(list(_unnamed(trees)))
    return trees


def _build_below(
    layer: _Layer, folder: Path, field: str, keys: MergeKeys, inside: tuple[Path, ...]
) -> list[Branch]:
    if folder.resolve() in inside:
        raise layer.refused(field, f"{folder} is being built already: the folders form a cycle", "remove it")
    below = _open(folder, layer.document.locate(field), field)
    if below.spec.openapi is not None and keys is BUILT_IN:
        fix = f"give {layer.document.source} an openapi.path with the same merge keys"
        raise below.refused("openapi", "counts only in the folder that is built", fix)
    return _build(below, keys, (*inside, folder.resolve()))


def _unnamed(trees: list[Branch]) -> Iterator[Problem]:
    for tree in trees:
        about = identity(tree)
        for field, value in (
            ("apiVersion", about.version),
            ("kind", about.kind),
            ("metadata.name", about.name),
        ):
            if not value:
                yield Problem(
                    tree.origin, field, "is missing, so this is no Kubernetes object", f"add {field}"
                )


def _duplicates(trees: list[Branch]) -> Iterator[Problem]:
    first: dict[Identity, Branch] = {}
    for tree in trees:
        about = identity(tree)._replace(version="")
        other = first.setdefault(about, tree)
        if other is not tree:
            reason = f"{about.kind} {about.name!r} is already in {other.origin}"
            yield Problem(tree.origin, "metadata.name", reason, "rename or remove one")


def _opened(layer: _Layer, patch: Patch, field: str) -> OpenPatch:
    if (patch.path is None) == (patch.patch is None):
        raise layer.refused(field, "has to have a path or an inline patch", "give exactly one of them")
    if patch.path is not None:
        path = layer.inside(patch.path, f"{field}.path")
        trees = read_trees(read_text(path), str(path))
    else:
        trees = _inline(layer, str(patch.patch), f"{field}.patch")
    if not trees:
        raise layer.refused(field, "the patch is empty", "remove it")
    return OpenPatch(patch.target, trees, layer.document.locate(field), field)


def _inline(layer: _Layer, text: str, field: str) -> list[Tree]:
    """A block of text starts on the line after its ``|``."""
    file, _, line = layer.document.locate(field).rpartition(":")
    return read_trees(text, file, int(line) + ("\n" in text))


def _refused(file: str, field: str, reason: str, fix: str) -> ManifestError:
    return ManifestError([Problem(file, field, reason, fix)])
