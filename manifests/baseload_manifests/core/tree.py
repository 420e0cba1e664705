"""YAML as an immutable tree in which every node knows where it was written.

Theory of operation. A manifest is put together from several files: a base and the patches of an overlay.
When the result is wrong, its author must be sent to the line that made it wrong, which is often a patch.
So patches work on trees, not on plain values: a node that moves into another tree takes its origin along.
Two projections leave the tree at the end: ``plain``, which the types validate, and ``origins``, which looks
up the origin of a field by the text that error messages use for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar. origin: ``file:line`` where it was written, as for all nodes."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Branch:
    """A mapping, in the order written."""

    entries: Mapping[str, "Tree"]
    origin: str

    def text(self, key: str) -> str:
        """The scalar under ``key`` as text, or an empty string."""
        found = self.entries.get(key)
        return str(found.value) if isinstance(found, Leaf) and found.value is not None else ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple["Tree", ...]
    origin: str


Tree: TypeAlias = Leaf | Branch | Items


def plain(tree: Tree) -> Any:
    """The value without its origins: dicts, lists and scalars."""
    if isinstance(tree, Branch):
        return {key: plain(child) for key, child in tree.entries.items()}
    if isinstance(tree, Items):
        return [plain(child) for child in tree.items]
    return tree.value


def origins(tree: Tree) -> dict[str, str]:
    """``file:line`` by field, for every field below the top; see ``field_text``."""
    return {field_text(path): node.origin for path, node in _walk(tree, ())}


def _walk(tree: Tree, path: tuple[int | str, ...]) -> Iterator[tuple[tuple[int | str, ...], Tree]]:
    children: Iterable[tuple[int | str, Tree]] = ()
    if isinstance(tree, Branch):
        children = tree.entries.items()
    elif isinstance(tree, Items):
        children = enumerate(tree.items)
    for part, child in children:
        yield (*path, part), child
        yield from _walk(child, (*path, part))


def field_text(path: Iterable[int | str]) -> str:
    """A path as error messages show it, such as ``spec.nodes.root.steps[0].weight``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".") or "(document)"
