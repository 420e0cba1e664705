"""KServe's InferenceGraph (serving.kserve.io/v1alpha1), field for field and strict about typos.

These types hold a graph's shape only: what a schema can say. Whether a graph can work, `graph_rules` says.
Pod fields that are handed on unread (resources, affinity, tolerations) stay plain mappings.
"""

from typing import Any, Literal

from pydantic import Field

from baseload_manifests.core.base import Manifest, Metadata

ROOT = "root"

RouterType = Literal["Sequence", "Splitter", "Ensemble", "Switch"]


class Step(Manifest):
    """One way on from a node: to a service by URL or name, or to another node."""

    name: str | None = None
    node_name: str | None = None
    service_name: str | None = None
    service_url: str | None = None
    data: str | None = None
    weight: int | None = None
    condition: str | None = None
    dependency: Literal["Soft", "Hard"] | None = None
    map_predictions_to_instances: bool | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets given, of which there may be one only. An empty string is none, as for KServe."""
        return tuple(target for target in (self.node_name, self.service_name, self.service_url) if target)


class Node(Manifest):
    """A node: how it treats its steps, and the steps in order."""

    router_type: RouterType
    steps: list[Step] = Field(default=[])


class RouterTimeouts(Manifest):
    """Limits of the router's HTTP server and client, in seconds. None leaves the router's default."""

    server_read: int | None = None
    server_write: int | None = None
    server_idle: int | None = None
    service_client: int | None = None


class InferenceGraphSpec(Manifest):
    """The graph proper. This is also what KServe's controller passes to a router as ``--graph-json``."""

    nodes: dict[str, Node]
    resources: dict[str, Any] | None = None
    affinity: dict[str, Any] | None = None
    tolerations: list[dict[str, Any]] | None = None
    node_selector: dict[str, str] | None = None
    node_name: str | None = None
    service_account_name: str | None = None
    timeout: int | None = None
    router_timeouts: RouterTimeouts | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    scale_target: int | None = None
    scale_metric: Literal["cpu", "memory", "concurrency", "rps"] | None = None


class InferenceGraph(Manifest):
    """An InferenceGraph as it lies in a file or comes from a cluster."""

    api_version: Literal["serving.kserve.io/v1alpha1"]
    kind: Literal["InferenceGraph"]
    metadata: Metadata
    spec: InferenceGraphSpec
    status: dict[str, Any] | None = None
