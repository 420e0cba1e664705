"""KServe's InferenceService and ServingRuntime, and the Secret and ServiceAccount beside them.

These types hold what Baseload's manifests use, strict about typos; a field of KServe's that is not here is
refused as unknown. What fits the schema and still can't work is ``service_rules``' matter.
"""

from typing import Any, Literal

from pydantic import Field

from baseload_manifests.core.base import Manifest, Metadata
from baseload_manifests.core.container import (
    Container,
    ContainerOverride,
    NameReference,
    Placement,
    PodSecurityContext,
    Volume,
)

DEPLOYMENT_MODE = "serving.kserve.io/deploymentMode"
"""Annotation: how KServe runs a service. It cannot be changed later."""
STANDARD = "Standard"
KNATIVE = "Knative"
CONTAINER = "kserve-container"
"""The name by which KServe finds the container that serves."""


class ModelFormat(Manifest):
    name: str
    version: str | None = None


class Model(ContainerOverride):
    """What a service runs: a runtime, and what it changes in the runtime's container."""

    model_format: ModelFormat
    runtime: str
    protocol_version: Literal["v1", "v2"] | None = None


class Predictor(Placement):
    """The replicas of a service. min_replicas is the floor; timeout is in seconds, for a whole request."""

    model: Model
    min_replicas: int = 1
    max_replicas: int | None = None
    timeout: int | None = None
    canary_traffic_percent: int | None = None
    scale_metric: Literal["cpu", "memory", "concurrency", "rps"] | None = None
    scale_target: int | None = None
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None
    termination_grace_period_seconds: int = 30
    security_context: PodSecurityContext | None = None
    labels: dict[str, str] = Field(default={})
    annotations: dict[str, str] = Field(default={})


class InferenceServiceSpec(Manifest):
    predictor: Predictor


class InferenceService(Manifest):
    """A service: one model behind one host name, at ``min_replicas`` replicas or more."""

    api_version: Literal["serving.kserve.io/v1beta1"]
    kind: Literal["InferenceService"]
    metadata: Metadata
    spec: InferenceServiceSpec
    status: dict[str, Any] | None = None

    @property
    def mode(self) -> str | None:
        return self.metadata.annotations.get(DEPLOYMENT_MODE)


class SupportedModelFormat(ModelFormat):
    auto_select: bool = False
    priority: int | None = None


class ServingRuntimeSpec(Placement):
    supported_model_formats: list[SupportedModelFormat]
    protocol_versions: list[Literal["v1", "v2"]] = Field(default=[])
    containers: list[Container] = Field(min_length=1)
    volumes: list[Volume] = Field(default=[])
    labels: dict[str, str] = Field(default={})
    annotations: dict[str, str] = Field(default={})


class ServingRuntime(Manifest):
    """How a model is run: the container and its settings, shared by all services that name it."""

    api_version: Literal["serving.kserve.io/v1alpha1"]
    kind: Literal["ServingRuntime"]
    metadata: Metadata
    spec: ServingRuntimeSpec


class Secret(Manifest):
    """Keys that containers read. string_data is plain text, data is base64."""

    api_version: Literal["v1"]
    kind: Literal["Secret"]
    metadata: Metadata
    type: str = "Opaque"
    data: dict[str, str] = Field(default={})
    string_data: dict[str, str] = Field(default={})


class ServiceAccount(Manifest):
    """Who a pod is to the cluster, and the Secrets that KServe's storage initializer may use for it."""

    api_version: Literal["v1"]
    kind: Literal["ServiceAccount"]
    metadata: Metadata
    secrets: list[NameReference] = Field(default=[])
    image_pull_secrets: list[NameReference] = Field(default=[])
    automount_service_account_token: bool | None = None
