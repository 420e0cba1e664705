"""Strategic merge patches, the part that manifests need, with kubectl's meaning.

Theory of operation. A patch is a partial manifest. Mappings merge key by key; null removes a key; a scalar
or a list replaces what was there. A list whose merge key is known (see ``merge_keys``) merges instead: items
with the same key merge, the patch's items come first, in its order, and the untouched rest follows.
``$patch: delete`` removes a mapping or a keyed item, ``$patch: replace`` replaces a mapping as a whole.

Nothing is guessed: a patch that puts a list where a mapping is, an item without its key, or a directive
that is not known here is refused.
"""

from collections.abc import Iterator

from baseload_manifests.core.merge_keys import KeysOfKind, ListPath
from baseload_manifests.core.problem import Problem
from baseload_manifests.core.tree import Branch, Items, Leaf, Tree, field_text
from baseload_manifests.errors import ManifestError

DIRECTIVE = "$patch"


def merge(base: Branch, patch: Branch, keys: KeysOfKind) -> Branch | None:
    """``base`` with ``patch`` applied; None when the patch deletes it. Raises ManifestError."""
    return _merge_branch(base, patch, keys, ())


def _merge(base: Tree | None, patch: Tree, keys: KeysOfKind, path: ListPath) -> Tree | None:
    if isinstance(patch, Branch):
        return _merge_branch(base, patch, keys, path)
    if isinstance(base, Branch):
        raise _refused(
            patch, path, "a patch can't put a list or a scalar where a mapping is", "mend the patch"
        )
    if isinstance(patch, Items):
        return _merge_items(base, patch, keys, path)
    return patch


def _merge_branch(base: Tree | None, patch: Branch, keys: KeysOfKind, path: ListPath) -> Branch | None:
    directive = _directive(patch, path)
    if directive == "delete":
        return None
    if base is None or directive == "replace":
        base = Branch({}, patch.origin)
    if not isinstance(base, Branch):
        raise _refused(
            patch, path, "a patch can't put a mapping where a list or a scalar is", "mend the patch"
        )
    entries = dict(base.entries)
    for key, child in patch.entries.items():
        merged = None if _is_null(child) else _merge(entries.get(key), child, keys, (*path, key))
        entries.pop(key, None) if merged is None else entries.update({key: merged})
    entries.pop(DIRECTIVE, None)
    return Branch(entries, base.origin)


def _directive(patch: Branch, path: ListPath) -> str:
    for key in patch.entries:
        if key.startswith("$") and key != DIRECTIVE:
            fix = f"use {DIRECTIVE}: delete or replace"
            raise _refused(patch, path, f"the directive {key} is not supported", fix)
    directive = patch.text(DIRECTIVE)
    if directive not in ("", "delete", "replace", "merge"):
        reason = f"{DIRECTIVE}: {directive} is not known"
        raise _refused(patch, path, reason, "write delete, replace or merge")
    return directive


def _merge_items(base: Tree | None, patch: Items, keys: KeysOfKind, path: ListPath) -> Items:
    if base is not None and not isinstance(base, Items):
        raise _refused(patch, path, "a patch can't put a list where a scalar is", "mend the patch")
    if path not in keys:
        _no_directives(patch, path)
        return patch
    key = keys[path]
    old = {} if base is None else dict(_keyed(base, key, path))
    new: dict[str, Tree | None] = {}
    for name, item in _keyed(patch, key, path):
        new[name] = _merge(old.get(name), item, keys, path)
    kept = [item for name, item in old.items() if name not in new]
    return Items((*(item for item in new.values() if item is not None), *kept), patch.origin)


def _keyed(items: Items, key: str, path: ListPath) -> Iterator[tuple[str, Tree]]:
    for item in items.items:
        name = item.text(key) if isinstance(item, Branch) else ""
        if not name:
            raise _refused(item, path, f"an item of this list has no {key}, by which it merges", f"add {key}")
        yield name, item


def _no_directives(patch: Items, path: ListPath) -> None:
    for item in patch.items:
        if isinstance(item, Branch) and DIRECTIVE in item.entries:
            fix = "write the whole list, or name the list's merge key in the schema of openapi.path"
            raise _refused(
                item, path, f"this list is replaced, not merged, so {DIRECTIVE} means nothing", fix
            )


def _is_null(tree: Tree) -> bool:
    return isinstance(tree, Leaf) and tree.value is None


def _refused(tree: Tree, path: ListPath, reason: str, fix: str) -> ManifestError:
    return ManifestError([Problem(tree.origin, field_text(path), reason, fix)])
