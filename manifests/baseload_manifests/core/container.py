"""The parts of a Kubernetes pod that predictors use: containers, probes, environment, volumes, placement."""

from typing import Literal

from pydantic import Field

from baseload_manifests.core.base import Manifest

Quantity = str | int
"""A Kubernetes resource quantity, such as ``500m``, ``8Gi`` or 1."""


class SecretKeySelector(Manifest):
    """One key of a Secret in the pod's namespace."""

    name: str
    key: str
    optional: bool = False


class EnvVarSource(Manifest):
    """Where an environment variable's value comes from. Secrets only: nothing else is known everywhere."""

    secret_key_ref: SecretKeySelector


class EnvVar(Manifest):
    """An environment variable: a plain value, or one from a Secret."""

    name: str
    value: str | None = None
    value_from: EnvVarSource | None = None


class HttpGet(Manifest):
    """What an HTTP probe asks for. port: a number or the name of a container port."""

    path: str
    port: int | str
    scheme: Literal["HTTP", "HTTPS"] = "HTTP"


class Probe(Manifest):
    """An HTTP probe. TCP and exec probes are not taken: an open port says nothing about the engine."""

    http_get: HttpGet
    initial_delay_seconds: int | None = None
    period_seconds: int | None = None
    timeout_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None


class SleepAction(Manifest):
    seconds: int


class ExecAction(Manifest):
    command: list[str]


class LifecycleHandler(Manifest):
    """What runs before SIGTERM is sent."""

    sleep: SleepAction | None = None
    exec: ExecAction | None = None


class Lifecycle(Manifest):
    pre_stop: LifecycleHandler


class ContainerPort(Manifest):
    container_port: int
    name: str | None = None
    protocol: Literal["TCP"] = "TCP"


class Resources(Manifest):
    requests: dict[str, Quantity] = Field(default={})
    limits: dict[str, Quantity] = Field(default={})


class Capabilities(Manifest):
    drop: list[str]


class SeccompProfile(Manifest):
    type: Literal["RuntimeDefault", "Unconfined"]


class SecurityContext(Manifest):
    """What a container may do. Left out means the cluster's default."""

    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    read_only_root_filesystem: bool | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    seccomp_profile: SeccompProfile | None = None


class PodSecurityContext(Manifest):
    fs_group: int | None = None
    run_as_non_root: bool | None = None


class VolumeMount(Manifest):
    name: str
    mount_path: str
    read_only: bool = False
    sub_path: str | None = None


class EmptyDir(Manifest):
    """medium: ``Memory`` counts against the memory limit of the container that fills it."""

    medium: Literal["", "Memory"] = ""
    size_limit: Quantity | None = None


class Volume(Manifest):
    name: str
    empty_dir: EmptyDir


class ContainerBase(Manifest):
    """What a runtime's container and a service's changes to it have in common."""

    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    args: list[str] = Field(default=[])
    env: list[EnvVar] = Field(default=[])
    ports: list[ContainerPort] = Field(default=[])
    resources: Resources = Resources()
    lifecycle: Lifecycle | None = None
    security_context: SecurityContext | None = None
    volume_mounts: list[VolumeMount] = Field(default=[])


class ContainerOverride(ContainerBase):
    """What an InferenceService changes in its runtime's container. Left out means as the runtime has it."""

    image: str | None = None
    command: list[str] = Field(default=[])
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None


class Container(ContainerBase):
    """A container of a ServingRuntime. Kubernetes would do without the probes; a model that loads can't."""

    name: str
    image: str = Field(description="a cluster starts it")
    command: list[str] = Field(min_length=1, description="one machine starts it")
    startup_probe: Probe = Field(description="without it a slow load is taken for a hang")
    readiness_probe: Probe = Field(description="without it traffic reaches an engine that still loads")
    liveness_probe: Probe = Field(description="without it a hung engine stays")


class MatchExpression(Manifest):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = Field(default=[])


class NodeSelectorTerm(Manifest):
    match_expressions: list[MatchExpression]


class NodeSelector(Manifest):
    node_selector_terms: list[NodeSelectorTerm]


class PreferredSchedulingTerm(Manifest):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Manifest):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = Field(default=[])


class Affinity(Manifest):
    node_affinity: NodeAffinity


class Toleration(Manifest):
    key: str | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None


class Placement(Manifest):
    """Which nodes a pod may run on."""

    affinity: Affinity | None = None
    node_selector: dict[str, str] = Field(default={})
    tolerations: list[Toleration] = Field(default=[])
    image_pull_secrets: list["NameReference"] = Field(default=[])


class NameReference(Manifest):
    name: str
