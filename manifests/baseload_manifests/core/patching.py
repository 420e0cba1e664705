"""Which objects a kustomize patch changes, and how.

A patch without target names its one object itself, as a partial manifest; a patch with a target applies to
every object that the target selects. A patch that changes nothing it was meant for is refused.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches

from baseload_manifests.core.json_patch import apply_json_patch
from baseload_manifests.core.kustomization import (
    PatchTarget,
    identity,
    is_about,
    selects,
    without_identity,
)
from baseload_manifests.core.merge_keys import MergeKeys
from baseload_manifests.core.overlay import merge
from baseload_manifests.core.problem import Problem
from baseload_manifests.core.tree import Branch, Leaf, Tree
from baseload_manifests.errors import ManifestError


@dataclass(frozen=True, slots=True)
class OpenPatch:
    """A patch that has been read. field, source: where the kustomization names it."""

    target: PatchTarget | None
    trees: list[Tree]
    source: str
    field: str


def patched(trees: list[Branch], patch: OpenPatch, keys: MergeKeys) -> list[Branch]:
    """The objects after a patch. Raises ManifestError."""
    for change in patch.trees:
        chosen = _chosen(trees, patch, change)
        changed = [_apply(tree, patch, change, keys) if tree in chosen else tree for tree in trees]
        trees = [tree for tree in changed if tree is not None]
    return trees


def _chosen(trees: list[Branch], patch: OpenPatch, change: Tree) -> list[Branch]:
    if patch.target is not None:
        return _targets(trees, patch, patch.target)
    if not isinstance(change, Branch):
        fix = "add target: with a kind and a name"
        raise _refused(patch.source, patch.field, "a JSON 6902 patch does not say what it changes", fix)
    about = identity(change)
    chosen = [tree for tree in trees if is_about(about, identity(tree))]
    if len(chosen) != 1:
        reason = f"matches {len(chosen)} objects with {about.kind} {about.name!r}"
        raise _refused(change.origin, "metadata.name", reason, _known(trees, about.name))
    return chosen


def _targets(trees: list[Branch], patch: OpenPatch, target: PatchTarget) -> list[Branch]:
    try:
        chosen = [tree for tree in trees if selects(target, identity(tree))]
    except re.error as error:
        reason = f"is not a regular expression: {error}"
        raise _refused(patch.source, f"{patch.field}.target", reason, "mend it") from error
    if not chosen:
        fix = _known(trees, target.name or "")
        raise _refused(patch.source, f"{patch.field}.target", "matches no object", fix)
    return chosen


def _known(trees: list[Branch], name: str) -> str:
    names = sorted({identity(tree).name for tree in trees})
    near = get_close_matches(name, names, n=1)
    known = ", ".join(sorted(f"{identity(tree).kind} {identity(tree).name}" for tree in trees))
    return f"write {near[0]}" if near and near[0] != name else f"name one of: {known}"


def _apply(tree: Branch, patch: OpenPatch, change: Tree, keys: MergeKeys) -> Branch | None:
    if isinstance(change, Branch):
        merging = change if patch.target is None else without_identity(change)
        return merge(tree, merging, keys.get(identity(tree).group_kind, {}))
    if isinstance(change, Leaf):
        fix = "write a part of the object, or a list of JSON 6902 operations"
        raise _refused(change.origin, patch.field, "a patch is a mapping or a list", fix)
    changed = apply_json_patch(tree, change)
    if not isinstance(changed, Branch) or identity(changed) != identity(tree):
        fix = "leave apiVersion, kind and metadata.name as they are"
        raise _refused(patch.source, patch.field, "the patch makes another object of it", fix)
    return changed


def _refused(file: str, field: str, reason: str, fix: str) -> ManifestError:
    return ManifestError([Problem(file, field, reason, fix)])
