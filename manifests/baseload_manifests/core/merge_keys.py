"""Which lists a strategic merge patch merges item by item, and by which key.

Theory of operation. kubectl's kustomize merges a list item by item only where a schema names the list's merge
key. It carries schemas of Kubernetes' own kinds, not of custom resources such as KServe's: there a list
in a patch **replaces** the whole list, unless the kustomization's ``openapi.path`` brings a schema
with ``x-kubernetes-patch-merge-key``. Such a schema replaces the built-in ones, it does not add to them.
Here the same rules hold, so that a patch means the same on one machine and through kubectl.

A schema is boiled down to one table: from a kind and the path of a list in it (without indexes) to the key.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias


class GroupKind(NamedTuple):
    """What a schema is about; ``group`` is empty for Kubernetes' core group."""

    group: str
    kind: str


ListPath: TypeAlias = tuple[str, ...]
KeysOfKind: TypeAlias = Mapping[ListPath, str]
MergeKeys: TypeAlias = Mapping[GroupKind, KeysOfKind]

BUILT_IN: MergeKeys = {GroupKind("", "ServiceAccount"): {("secrets",): "name"}}
"""Kubernetes' own, of the kinds that a Baseload stack holds."""

_REFERENCE = "#/definitions/"


def read_merge_keys(schema: Mapping[str, Any]) -> MergeKeys:
    """The table of an OpenAPI schema with ``definitions``. Raises ValueError when it can't be used."""
    definitions = schema.get("definitions")
    if not isinstance(definitions, dict) or not all(isinstance(part, dict) for part in definitions.values()):
        raise ValueError("it needs a mapping 'definitions' of schemas")
    table: dict[GroupKind, KeysOfKind] = {}
    for definition in definitions.values():
        for about in definition.get("x-kubernetes-group-version-kind", ()):
            keys = dict(_keys(definition, definitions, (), ()))
            table[GroupKind(str(about.get("group", "")), str(about.get("kind", "")))] = keys
    if not table:
        raise ValueError("no definition says its x-kubernetes-group-version-kind")
    return table


def _keys(
    schema: Mapping[str, Any],
    definitions: Mapping[str, Any],
    path: ListPath,
    inside: tuple[str, ...],
) -> Iterator[tuple[ListPath, str]]:
    """``inside``: the definitions that are being followed, against endless loops."""
    reference = str(schema.get("$ref", ""))
    if reference:
        name = reference.removeprefix(_REFERENCE)
        if name not in definitions:
            raise ValueError(f"$ref {reference!r} leads nowhere")
        if name not in inside:
            yield from _keys(definitions[name], definitions, path, (*inside, name))
        return
    if schema.get("x-kubernetes-patch-strategy") == "merge" and "x-kubernetes-patch-merge-key" in schema:
        yield path, str(schema["x-kubernetes-patch-merge-key"])
    for name, child in schema.get("properties", {}).items():
        yield from _keys(child, definitions, (*path, name), inside)
    if "items" in schema:
        yield from _keys(schema["items"], definitions, path, inside)
