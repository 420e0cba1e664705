"""JSON patches (RFC 6902) on trees: all six operations, applied in order, all or none.

An operation whose path leads nowhere is refused and never ignored; so is a ``test`` that does not hold.
"""

from collections.abc import Callable
from typing import TypeAlias

from baseload_manifests.core.problem import Problem
from baseload_manifests.core.tree import Branch, Items, Tree, plain
from baseload_manifests.errors import ManifestError

Pointer: TypeAlias = tuple[str, ...]
Container: TypeAlias = Branch | Items
_APPEND = "-"


class _NowhereError(ValueError):
    """An operation can't be done; ``apply_json_patch`` adds which one and where it is written."""


def apply_json_patch(tree: Tree, patch: Items) -> Tree:
    """``tree`` after every operation of ``patch``. Raises ManifestError that names the failing one."""
    for index, item in enumerate(patch.items):
        if not isinstance(item, Branch):
            raise _refused(item, index, "an operation is a mapping", "write op, path and value")
        name = item.text("op")
        if name not in _OPERATIONS:
            raise _refused(item, index, f"there is no operation {name!r}", f"use {', '.join(_OPERATIONS)}")
        try:
            tree = _OPERATIONS[name](tree, item)
        except _NowhereError as error:
            reason = f"{name} {item.text('path')!r}: {error}"
            raise _refused(item, index, reason, "mend the operation") from error
    return tree


def _add(tree: Tree, operation: Branch) -> Tree:
    return _put(tree, _pointer(operation, "path"), _value(operation))


def _remove(tree: Tree, operation: Branch) -> Tree:
    return _cut(tree, _pointer(operation, "path"))


def _replace(tree: Tree, operation: Branch) -> Tree:
    path = _pointer(operation, "path")
    if not path:
        return _value(operation)
    _get(tree, path)
    return _edit(tree, path, lambda container, part: _swapped(container, part, _value(operation)))


def _move(tree: Tree, operation: Branch) -> Tree:
    source = _pointer(operation, "from")
    return _put(_cut(tree, source), _pointer(operation, "path"), _get(tree, source))


def _copy(tree: Tree, operation: Branch) -> Tree:
    return _put(tree, _pointer(operation, "path"), _get(tree, _pointer(operation, "from")))


def _test(tree: Tree, operation: Branch) -> Tree:
    found, wanted = plain(_get(tree, _pointer(operation, "path"))), plain(_value(operation))
    if found != wanted:
        raise _NowhereError(f"the test does not hold: {found!r} is not {wanted!r}")
    return tree


_OPERATIONS: dict[str, Callable[[Tree, Branch], Tree]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _pointer(operation: Branch, key: str) -> Pointer:
    """A JSON pointer (RFC 6901); the empty one is the whole document."""
    if key not in operation.entries:
        raise _NowhereError(f"it has no {key!r}")
    text = operation.text(key)
    if text and not text.startswith("/"):
        raise _NowhereError(f"{key} {text!r} does not start with '/'")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def _value(operation: Branch) -> Tree:
    if "value" not in operation.entries:
        raise _NowhereError("it has no 'value'")
    return operation.entries["value"]


def _get(tree: Tree, path: Pointer) -> Tree:
    for part in path:
        tree = _child(tree, part)
    return tree


def _child(tree: Tree, part: str) -> Tree:
    if isinstance(tree, Items):
        return tree.items[_index(part, len(tree.items))]
    if isinstance(tree, Branch) and part in tree.entries:
        return tree.entries[part]
    raise _NowhereError(f"there is no {part!r}")


def _index(part: str, end: int) -> int:
    """An index below ``end``."""
    if not (part.isascii() and part.isdecimal() and int(part) < end):
        raise _NowhereError(f"{part!r} is not an index below {end}")
    return int(part)


def _put(tree: Tree, path: Pointer, value: Tree) -> Tree:
    return _edit(tree, path, lambda container, part: _inserted(container, part, value)) if path else value


def _cut(tree: Tree, path: Pointer) -> Tree:
    if not path:
        raise _NowhereError("the whole document can't be removed")
    _get(tree, path)
    return _edit(tree, path, _removed)


def _edit(tree: Tree, path: Pointer, change: Callable[[Container, str], Tree]) -> Tree:
    """``tree`` with ``change`` made to the container of the path's last part."""
    part, rest = path[0], path[1:]
    if not isinstance(tree, Branch | Items):
        raise _NowhereError(f"there is no {part!r}")
    if not rest:
        return change(tree, part)
    return _swapped(tree, part, _edit(_child(tree, part), rest, change))


def _inserted(container: Container, part: str, value: Tree) -> Tree:
    if isinstance(container, Branch):
        return Branch({**container.entries, part: value}, container.origin)
    items = container.items
    index = len(items) if part == _APPEND else _index(part, len(items) + 1)
    return Items((*items[:index], value, *items[index:]), container.origin)


def _swapped(container: Container, part: str, value: Tree) -> Tree:
    if isinstance(container, Branch):
        return Branch({**container.entries, part: value}, container.origin)
    index = int(part)
    return Items((*container.items[:index], value, *container.items[index + 1 :]), container.origin)


def _removed(container: Container, part: str) -> Tree:
    if isinstance(container, Branch):
        rest = {key: child for key, child in container.entries.items() if key != part}
        return Branch(rest, container.origin)
    index = int(part)
    return Items((*container.items[:index], *container.items[index + 1 :]), container.origin)


def _refused(item: Tree, index: int, reason: str, fix: str) -> ManifestError:
    return ManifestError([Problem(item.origin, f"patch[{index}]", reason, fix)])
