"""One manifest document and where its parts were written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baseload_manifests.core.tree import Branch, origins, plain

DEFAULT_NAMESPACE = "default"
"""Where an object lives that names no namespace, unless the cluster's client says otherwise."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document.

    source: ``file:line`` of its first line, as error messages show it.
    origins: ``file:line`` by field where known; a field that a patch has set points to the patch.
    """

    source: str
    body: dict[str, Any]
    origins: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Branch) -> "Document":
        return cls(tree.origin, plain(tree), origins(tree))

    @property
    def kind(self) -> str:
        return str(self.body.get("kind", ""))

    @property
    def name(self) -> str:
        return self._metadata("name")

    @property
    def namespace(self) -> str:
        return self._metadata("namespace") or DEFAULT_NAMESPACE

    def _metadata(self, key: str) -> str:
        metadata = self.body.get("metadata")
        return str(metadata.get(key) or "") if isinstance(metadata, dict) else ""

    def locate(self, field_name: str) -> str:
        """``file:line`` of a field; of the nearest part around it, if the field itself is not there."""
        while field_name not in self.origins:
            cut = max(field_name.rfind("."), field_name.rfind("["))
            if cut < 0:
                return self.source
            field_name = field_name[:cut]
        return self.origins[field_name]
