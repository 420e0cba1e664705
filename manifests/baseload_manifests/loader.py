"""From YAML files to typed manifests. A failure is a ManifestError that names file, line, field and fix."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.constructor import SafeConstructor

from baseload_manifests.core.document import Document
from baseload_manifests.core.problem import Problem
from baseload_manifests.core.tree import Branch, Items, Leaf, Tree, field_text
from baseload_manifests.errors import ManifestError

__all__ = ["Document", "parse", "read_documents", "read_mappings", "read_text", "read_trees"]

T = TypeVar("T", bound=BaseModel)


def read_documents(path: Path) -> list[Document]:
    """Every document of a YAML (or JSON) file, empty ones left out. Raises ManifestError."""
    return [Document.of(tree) for tree in read_mappings(path)]


def read_mappings(path: Path) -> list[Branch]:
    """Every document of a file as a tree, empty ones left out. Raises ManifestError."""
    return [_mapping(tree) for tree in read_trees(read_text(path), str(path))]


def read_text(path: Path) -> str:
    """The text of a file. Raises ManifestError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fix = "check the path and its rights"
        raise _refused(str(path), "(file)", f"cannot be read: {error}", fix) from error


def read_trees(text: str, file: str, line: int = 1) -> list[Tree]:
    """Every document of a YAML text, empty ones left out. Raises ManifestError.

    file, line: where the text's first line is written, for origins.
    """
    builder = _Builder(file, line)
    try:
        trees = [builder.build(node) for node in yaml.compose_all(text, yaml.SafeLoader)]
        return [tree for tree in trees if not isinstance(tree, Leaf) or tree.value is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        source = f"{file}:{mark.line + line}" if mark else file
        reason = f"is not valid YAML: {error.problem or error.context}"
        raise _refused(source, "(syntax)", reason, "mend the YAML there or on the line above") from error
    except yaml.YAMLError as error:  # a character that YAML forbids: it has no mark
        raise _refused(file, "(syntax)", " ".join(str(error).split()), "remove the character") from error
    except RecursionError as error:
        raise _refused(file, "(syntax)", "is nested too deeply", "write it flatter") from error


class _Builder:
    """YAML's nodes to trees: as the safe loader constructs them, but with origins and without surprises."""

    def __init__(self, file: str, line: int) -> None:
        self._constructor = SafeConstructor()
        self._file = file
        self._line = line
        self._open: list[yaml.Node] = []

    def build(self, node: yaml.Node, origin: str | None = None) -> Tree:
        """origin: where the node's key is written, if it has one; that is where an author looks first."""
        origin = origin or self._origin(node)
        if isinstance(node, yaml.ScalarNode):
            return Leaf(self._constructor.construct_object(node), origin)
        if node in self._open:
            raise _refused(origin, "(document)", "an alias leads to a part that holds it", "remove the alias")
        self._open.append(node)
        tree = self._collection(node, origin)
        self._open.pop()
        return tree

    def _origin(self, node: yaml.Node) -> str:
        return f"{self._file}:{node.start_mark.line + self._line}"

    def _collection(self, node: yaml.Node, origin: str) -> Tree:
        if isinstance(node, yaml.MappingNode):
            return Branch(self._entries(node), origin)
        return Items(tuple(self.build(child) for child in node.value), origin)

    def _entries(self, node: yaml.MappingNode) -> dict[str, Tree]:
        entries: dict[str, Tree] = {}
        for key_node, child in node.value:
            key = self.build(key_node)
            if not isinstance(key, Leaf) or not isinstance(key.value, str):
                raise _refused(key.origin, "(key)", f"the key {key_node.value!r} is not text", "quote it")
            if key.value in entries:
                raise _refused(key.origin, key.value, "is written twice here", "remove one")
            entries[key.value] = self.build(child, key.origin)
        return entries


def _mapping(tree: Tree) -> Branch:
    if not isinstance(tree, Branch):
        raise _refused(tree.origin, "(document)", "is not a mapping", "start it with apiVersion and kind")
    return tree


def parse(model: type[T], document: Document) -> T:
    """``document`` as a ``model``. Raises ManifestError with one Problem for each field that is wrong."""
    try:
        return model.model_validate(document.body, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ManifestError(list(_problems(model, document, error))) from error


def _problems(model: type[BaseModel], document: Document, error: ValidationError) -> Iterator[Problem]:
    for detail in error.errors(include_url=False):
        field = field_text(detail["loc"])
        reason = _reason(detail["type"], detail["msg"])
        yield Problem(document.locate(field), field, reason, _fix(model, detail["loc"], detail))


def _reason(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown field"
    return message[0].lower() + message[1:]


def _fix(model: type[BaseModel], location: tuple[int | str, ...], detail: Mapping[str, Any]) -> str:
    kind, name = detail["type"], str(location[-1]) if location else ""
    if kind == "missing":
        why = _siblings(model, location)[name].get("description")
        return f"add {name} ({why})" if why else f"add {name}"
    if kind == "extra_forbidden":
        known = _siblings(model, location)
        return _nearest(name, known) or f"remove it (known here: {', '.join(sorted(known))})"
    if kind == "literal_error":
        wanted = re.findall(r"'([^']+)'", detail["ctx"]["expected"])
        return _nearest(str(detail["input"]), wanted) or f"write {' or '.join(wanted)}"
    return f"change the value {detail['input']!r}"


def _nearest(word: str, known: Iterable[str]) -> str | None:
    near = get_close_matches(word, known, n=1)
    return f"write {near[0]}" if near else None


def _siblings(model: type[BaseModel], location: tuple[int | str, ...]) -> dict[str, Any]:
    """The fields known beside the last part of ``location``, with their schemas."""
    schema: dict[str, Any] = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    for part in location[:-1]:
        schema = _step(_resolved(schema, definitions), part)
    return dict(_resolved(schema, definitions)["properties"])


def _resolved(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return _resolved(option, definitions)
    reference = schema.get("$ref")
    return definitions[reference.rsplit("/", 1)[1]] if reference else schema


def _step(schema: dict[str, Any], part: int | str) -> dict[str, Any]:
    """The schema of a part: of a list's item, of a field, or of a value under a free key."""
    if isinstance(part, int):
        return dict(schema["items"])
    return dict(schema.get("properties", {}).get(part) or schema["additionalProperties"])


def _refused(file: str, field: str, reason: str, fix: str) -> ManifestError:
    return ManifestError([Problem(file, field, reason, fix)])
