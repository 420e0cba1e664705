"""From a service and its runtime to what one replica is: a command, an environment, limits and probes.

Theory of operation. KServe builds a pod from two objects, and this module does the same for a process: the
runtime's container, changed by the service's ``model``. Args of both are joined, the service's last, so that
in a predictor, where the last flag counts, a service overrides its runtime. Environment variables merge by
name. ``{{.Name}}`` and ``{{.Namespace}}`` become those of the service.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from baseload_manifests.core.container import EnvVar
from baseload_manifests.core.document import DEFAULT_NAMESPACE
from baseload_manifests.core.service import CONTAINER, InferenceService, ServingRuntime

SNAPSHOT_FLAG = "--snapshot"
RUNNING_FLAG = "--max-num-seqs"
WAITING_FLAG = "--max-queue"
LIMIT_FLAGS = (RUNNING_FLAG, WAITING_FLAG)

_PLACEHOLDER = re.compile(r"\{\{\s*\.(\w[\w.]*)\s*\}\}")
_FILLED = ("Name", "Namespace")


class SecretEnv(NamedTuple):
    """An environment variable whose value is one key of a Secret."""

    name: str
    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One service, resolved against its runtime.

    replicas: the floor, minReplicas; max_replicas: the ceiling, at least the floor.
    env, secret_env: the environment, plain values and values from Secrets; no name is in both.
    host: the host name that answers for the service, ``NAME-predictor``, as in the graph's URLs.
    capacity: requests that a replica admits at the same time, running (``--max-num-seqs``) plus waiting
        (``--max-queue``); it refuses the next one.
    readiness_path: the path that answers 200 once the engine answers.
    source: ``file:line`` of the InferenceService.
    termination_grace_period: seconds from SIGTERM to SIGKILL.
    """

    name: str
    namespace: str
    replicas: int
    max_replicas: int
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str]
    secret_env: tuple[SecretEnv, ...]
    host: str
    capacity: int
    readiness_path: str
    source: str
    termination_grace_period: float = 30.0

    @property
    def snapshot(self) -> str | None:
        """The snapshot that its replicas restore; None if they serve a folder."""
        found = flag_at(self.args, SNAPSHOT_FLAG)
        return found.value if found else None


def resolve(service: InferenceService, runtime: ServingRuntime, source: str) -> ServiceSpec:
    """The service as one machine runs it. Both must have passed their rules."""
    predictor = service.spec.predictor
    model = predictor.model
    container = next(found for found in runtime.spec.containers if found.name == CONTAINER)
    name, namespace = service.metadata.name, service.metadata.namespace or DEFAULT_NAMESPACE

    def filled(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(fill(text, name, namespace) for text in texts)

    args = filled([*container.args, *model.args])
    env = {variable.name: variable for variable in (*container.env, *model.env)}
    limits = [flag_at(args, flag) for flag in LIMIT_FLAGS]
    return ServiceSpec(
        name=name,
        namespace=namespace,
        replicas=predictor.min_replicas,
        max_replicas=max(predictor.min_replicas, predictor.max_replicas or 0),
        command=filled(model.command or container.command),
        args=args,
        env={
            key: fill(found.value or "", name, namespace)
            for key, found in env.items()
            if not found.value_from
        },
        secret_env=tuple(_secret_env(env.values())),
        host=host_of(name),
        capacity=sum(int(limit.value) for limit in limits if limit),
        readiness_path=(model.readiness_probe or container.readiness_probe).http_get.path,
        source=source,
        termination_grace_period=float(predictor.termination_grace_period_seconds),
    )


def host_of(name: str) -> str:
    """The host name of the Kubernetes Service that KServe makes for a predictor."""
    return f"{name}-predictor"


def fill(text: str, name: str, namespace: str) -> str:
    """``text`` with KServe's placeholders filled in."""
    values = {"Name": name, "Namespace": namespace}
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def unknown_placeholders(text: str) -> list[str]:
    """The placeholders that ``fill`` leaves as they are."""
    return [found[0] for found in _PLACEHOLDER.finditer(text) if found[1] not in _FILLED]


@dataclass(frozen=True, slots=True)
class FlagAt:
    """A flag's value and the index of the argument that gives it."""

    value: str
    index: int


def flag_at(args: Sequence[str], flag: str) -> FlagAt | None:
    """The last ``--flag=value`` or ``--flag value`` in ``args``, which is the one that counts."""
    found = None
    for index, arg in enumerate(args):
        if arg.startswith(f"{flag}="):
            found = FlagAt(arg.removeprefix(f"{flag}="), index)
        elif arg == flag:
            found = FlagAt(args[index + 1] if index + 1 < len(args) else "", index)
    return found


def _secret_env(variables: Iterable[EnvVar]) -> Iterator[SecretEnv]:
    for variable in variables:
        if variable.value_from is not None:
            reference = variable.value_from.secret_key_ref
            yield SecretEnv(variable.name, reference.name, reference.key)
