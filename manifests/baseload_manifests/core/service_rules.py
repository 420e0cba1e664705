"""Rules for services and runtimes that a schema can't say: what KServe refuses, ignores, or lets fail later.

KServe ignores a canary percentage in Standard mode without a word, lets the cluster's default decide the
deployment mode for good, and sends traffic to a port that is open but has no engine behind it. Here each
of these is refused before anything runs. As in ``graph_rules``, faults do not know their file.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from baseload_manifests.core.container import Container, EnvVar
from baseload_manifests.core.graph_rules import Fault
from baseload_manifests.core.replica import LIMIT_FLAGS, SNAPSHOT_FLAG, flag_at, unknown_placeholders
from baseload_manifests.core.service import (
    CONTAINER,
    DEPLOYMENT_MODE,
    KNATIVE,
    STANDARD,
    InferenceService,
    Predictor,
    ServingRuntime,
)

_LEGACY_MODES = {"RawDeployment": STANDARD, "Serverless": KNATIVE}
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_LIMIT = 63 - len("-predictor")
"""A DNS label has 63 characters at most, and KServe names the Service NAME-predictor."""
_SNAPSHOT = re.compile(r"s3://[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]/[^\s:@]*[^\s:@/](:[-.\w]+|@[:\w]+)?")


def check_service(service: InferenceService) -> tuple[Fault, ...]:
    """Every fault of an InferenceService by itself. Empty when it can be used."""
    predictor = service.spec.predictor
    model = "spec.predictor.model"
    return (
        *_name(service.metadata.name),
        *_mode(service.mode),
        *_floor(predictor),
        *_canary(service.mode, predictor),
        *_args(f"{model}.args", predictor.model.args),
        *_env(f"{model}.env", predictor.model.env),
    )


def check_runtime(runtime: ServingRuntime) -> tuple[Fault, ...]:
    """Every fault of a ServingRuntime by itself. Empty when it can be used."""
    containers = runtime.spec.containers
    names = [container.name for container in containers]
    if names.count(CONTAINER) != 1:
        reason = f"{names.count(CONTAINER)} containers are named {CONTAINER}, as the one that serves must be"
        return (Fault("spec.containers", reason, f"name one of {', '.join(names)} so"),)
    index = names.index(CONTAINER)
    return tuple(_container(f"spec.containers[{index}]", containers[index]))


def _name(name: str) -> Iterator[Fault]:
    if not _NAME.fullmatch(name):
        fix = "use lower-case letters, digits and '-', a letter first, no '-' last"
        yield Fault("metadata.name", f"{name!r} is not a valid name", fix)
    if len(name) > _NAME_LIMIT:
        reason = f"{name!r} has {len(name)} characters, and {name}-predictor must fit a DNS label"
        yield Fault("metadata.name", reason, f"use {_NAME_LIMIT} or fewer")


def _mode(mode: str | None) -> Iterator[Fault]:
    field = f"metadata.annotations.{DEPLOYMENT_MODE}"
    if mode is None:
        reason = "is not set, so the cluster's default decides, and it can't be changed later"
        yield Fault(field, reason, f"add the annotation {DEPLOYMENT_MODE}: {STANDARD}")
    elif mode not in (STANDARD, KNATIVE):
        near = get_close_matches(mode, (STANDARD, KNATIVE), n=1)
        meant = _LEGACY_MODES.get(mode) or (near[0] if near else f"{STANDARD} or {KNATIVE}")
        yield Fault(field, f"{mode!r} is not a deployment mode", f"write {meant}")


def _floor(predictor: Predictor) -> Iterator[Fault]:
    floor, ceiling = predictor.min_replicas, predictor.max_replicas
    if floor < 1:
        reason = f"a floor of {floor} lets the service go cold, and its canary would never be ready"
        yield Fault("spec.predictor.minReplicas", reason, "write 1 or more")
    if ceiling is not None and ceiling < floor:
        reason = f"{ceiling} is below the floor, minReplicas {floor}"
        yield Fault("spec.predictor.maxReplicas", reason, f"write {max(floor, 1)} or more")


def _canary(mode: str | None, predictor: Predictor) -> Iterator[Fault]:
    if mode == STANDARD and predictor.canary_traffic_percent is not None:
        reason = "is ignored without a word by KServe in Standard mode"
        fix = "remove it, and split traffic by the weights of a Splitter in the InferenceGraph"
        yield Fault("spec.predictor.canaryTrafficPercent", reason, fix)


def _container(where: str, container: Container) -> Iterator[Fault]:
    yield from _args(f"{where}.args", container.args)
    yield from _args(f"{where}.command", container.command)
    yield from _env(f"{where}.env", container.env)


def _args(where: str, args: Sequence[str]) -> Iterator[Fault]:
    for index, arg in enumerate(args):
        yield from _placeholders(f"{where}[{index}]", arg)
    snapshot = flag_at(args, SNAPSHOT_FLAG)
    if snapshot and not _SNAPSHOT.fullmatch(snapshot.value):
        reason = f"{snapshot.value!r} does not name a snapshot"
        yield Fault(f"{where}[{snapshot.index}]", reason, "write s3://BUCKET/NAME or s3://BUCKET/NAME:TAG")
    for flag in LIMIT_FLAGS:
        found = flag_at(args, flag)
        if found and not (found.value.isdecimal() and int(found.value) > 0):
            reason = f"{flag} is {found.value!r}, which is no number from 1"
            yield Fault(f"{where}[{found.index}]", reason, "write a whole number, 1 or more")


def _env(where: str, env: Sequence[EnvVar]) -> Iterator[Fault]:
    for index, variable in enumerate(env):
        yield from _placeholders(f"{where}[{index}].value", variable.value or "")
        if variable.value is not None and variable.value_from is not None:
            yield Fault(f"{where}[{index}]", f"{variable.name} has both a value and valueFrom", "remove one")


def _placeholders(where: str, text: str) -> Iterator[Fault]:
    for placeholder in unknown_placeholders(text):
        yield Fault(where, f"{placeholder} is not filled in here", "use {{.Name}} or {{.Namespace}}")
