"""kustomization.yaml: the subset that Baseload renders, and which objects a patch applies to.

Theory of operation. A stack is a base and one overlay. For that, ``resources``, ``patches``, ``namespace``
and ``openapi`` (merge keys of custom resources) are enough. Each means what it means to kubectl, and a field
outside the subset is refused by name: a renderer that leaves something out would start another stack than
kubectl applies. Two cases that kubectl passes over in silence are refused as well: a patch that matches
nothing, and an ``openapi`` below the folder that is built, whose effect depends on the order of resources.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from pydantic import Field

from baseload_manifests.core.base import Manifest
from baseload_manifests.core.merge_keys import GroupKind
from baseload_manifests.core.tree import Branch, Leaf, Tree

UNSUPPORTED = frozenset(
    {
        "bases",
        "buildMetadata",
        "commonAnnotations",
        "commonLabels",
        "components",
        "configMapGenerator",
        "configurations",
        "crds",
        "generatorOptions",
        "generators",
        "helmCharts",
        "helmGlobals",
        "images",
        "labels",
        "namePrefix",
        "nameSuffix",
        "patchesJson6902",
        "patchesStrategicMerge",
        "replacements",
        "replicas",
        "secretGenerator",
        "sortOptions",
        "transformers",
        "validators",
        "vars",
    }
)
"""Fields that kustomize has and this renderer has not."""


class PatchTarget(Manifest):
    """Which objects a patch applies to. Each field is a regular expression for the whole value."""

    group: str | None = None
    version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class Patch(Manifest):
    """A strategic merge patch or a JSON 6902 patch: inline (``patch``) or a file (``path``)."""

    path: str | None = None
    patch: str | None = None
    target: PatchTarget | None = None


class OpenApi(Manifest):
    """The schema with the merge keys of custom resources; see ``merge_keys``."""

    path: str


class Kustomization(Manifest):
    """A kustomization.yaml."""

    api_version: Literal["kustomize.config.k8s.io/v1beta1"] | None = None
    kind: Literal["Kustomization"] | None = None
    namespace: str | None = None
    resources: list[str] = Field(default=[])
    patches: list[Patch] = Field(default=[])
    openapi: OpenApi | None = None


class Identity(NamedTuple):
    """What tells an object from all others."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)


def identity(tree: Branch) -> Identity:
    """The identity of an object; parts that it lacks are empty."""
    group, _, version = tree.text("apiVersion").rpartition("/")
    metadata = tree.entries.get("metadata")
    named = metadata if isinstance(metadata, Branch) else Branch({}, tree.origin)
    return Identity(group, version, tree.text("kind"), named.text("namespace"), named.text("name"))


def selects(target: PatchTarget, about: Identity) -> bool:
    """Whether a patch's target matches an object. Raises re.error for a malformed expression."""
    return all(
        pattern is None or re.fullmatch(pattern, value) is not None
        for pattern, value in _compared(target, about)
    )


def _compared(target: PatchTarget, about: Identity) -> Iterator[tuple[str | None, str]]:
    for name, value in about._asdict().items():
        yield getattr(target, name), value


def is_about(patch: Identity, about: Identity) -> bool:
    """Whether a patch without target, which names its object itself, means this one."""
    return patch._replace(namespace=patch.namespace or about.namespace) == about


def without_identity(patch: Branch) -> Branch:
    """A patch whose target says what it is about: its own name and kind then mean nothing."""
    entries = {key: child for key, child in patch.entries.items() if key not in ("apiVersion", "kind")}
    metadata = entries.get("metadata")
    if isinstance(metadata, Branch):
        kept = {key: child for key, child in metadata.entries.items() if key not in ("name", "namespace")}
        entries["metadata"] = Branch(kept, metadata.origin)
    return Branch(entries, patch.origin)


def in_namespace(tree: Branch, namespace: Leaf) -> Branch:
    """The object in a namespace. All kinds of a stack live in one."""
    metadata = tree.entries["metadata"]
    origin = metadata.origin
    entries: dict[str, Tree] = dict(metadata.entries) if isinstance(metadata, Branch) else {}
    entries["namespace"] = namespace
    return Branch({**tree.entries, "metadata": Branch(entries, origin)}, tree.origin)
