"""Rules between the objects of a stack: every name that one object uses must be another object's.

KServe looks up a runtime when a service is created and a graph's hosts when a request arrives; here both are
looked up before anything runs. Rules take names, so that an object with faults of its own still counts.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from urllib.parse import urlsplit

from baseload_manifests.core.document import DEFAULT_NAMESPACE
from baseload_manifests.core.graph import InferenceGraphSpec, Step
from baseload_manifests.core.graph_rules import Fault
from baseload_manifests.core.replica import LIMIT_FLAGS, SNAPSHOT_FLAG, flag_at, host_of
from baseload_manifests.core.service import CONTAINER, InferenceService, ServingRuntime

MODEL_DIR_FLAG = "--model-dir"
_LOOPBACK = ("localhost",)


def check_reference(service: InferenceService, runtimes: Collection[str]) -> Iterator[Fault]:
    """Whether a service's runtime is in the stack. runtimes: the names of those in its namespace."""
    name = service.spec.predictor.model.runtime
    if name not in runtimes:
        namespace = service.metadata.namespace or DEFAULT_NAMESPACE
        reason = f"there is no ServingRuntime {name!r} in namespace {namespace!r}"
        yield Fault("spec.predictor.model.runtime", reason, _choice(name, runtimes, "add a ServingRuntime"))


def check_pair(service: InferenceService, runtime: ServingRuntime) -> Iterator[Fault]:
    """Whether a service and its runtime fit each other."""
    model = service.spec.predictor.model
    formats = [supported.name for supported in runtime.spec.supported_model_formats]
    if model.model_format.name not in formats:
        reason = f"runtime {model.runtime!r} does not take {model.model_format.name!r}"
        fix = _choice(model.model_format.name, formats, "add it to supportedModelFormats")
        yield Fault("spec.predictor.model.modelFormat.name", reason, fix)
    containers = [container for container in runtime.spec.containers if container.name == CONTAINER]
    if containers:  # without it the runtime has a fault of its own
        yield from _stated([arg for part in (*containers, model) for arg in part.args])


def _stated(args: Sequence[str]) -> Iterator[Fault]:
    """What the runtime's and the service's args together have to say."""
    field = "spec.predictor.model.args"
    if not any(flag_at(args, flag) for flag in (SNAPSHOT_FLAG, MODEL_DIR_FLAG)):
        reason = "neither the service nor its runtime says which weights to serve"
        yield Fault(field, reason, f"add {SNAPSHOT_FLAG}=s3://BUCKET/NAME:TAG")
    for flag in LIMIT_FLAGS:
        if not flag_at(args, flag):
            reason = (
                f"neither the service nor its runtime gives {flag}, so the router can't know the capacity"
            )
            yield Fault(field, reason, f"add {flag}=NUMBER")


def check_targets(graph: InferenceGraphSpec, services: Collection[str]) -> Iterator[Fault]:
    """Whether the services that a graph sends requests to are in the stack. services: their names."""
    hosts = {host_of(name): name for name in services}
    for name, node in graph.nodes.items():
        for index, step in enumerate(node.steps):
            yield from _target(f"spec.nodes.{name}.steps[{index}]", step, hosts)


def _target(where: str, step: Step, hosts: Mapping[str, str]) -> Iterator[Fault]:
    if step.service_name and step.service_name not in hosts.values():
        fix = _choice(step.service_name, hosts.values(), "add an InferenceService")
        yield Fault(f"{where}.serviceName", f"there is no InferenceService {step.service_name!r}", fix)
    host = _host(step.service_url or "")
    label = host.split(".")[0]
    if label in hosts or host in ("", *_LOOPBACK):
        return
    if host == label or label.endswith(host_of("")):
        fix = _choice(label, hosts, "add an InferenceService")
        yield Fault(f"{where}.serviceUrl", f"no InferenceService of this stack answers at {host!r}", fix)


def _host(url: str) -> str:
    """The host of a URL; empty where it is malformed, which ``graph_rules`` reports."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _choice(name: str, known: Collection[str], otherwise: str) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"write {near[0]}"
    return f"{otherwise}, or name one of: {', '.join(sorted(known))}" if known else otherwise
