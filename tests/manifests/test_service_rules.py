from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_manifests.core.graph import InferenceGraphSpec
from baseload_manifests.core.graph_rules import Fault
from baseload_manifests.core.replica import SecretEnv, fill, flag_at, resolve, unknown_placeholders
from baseload_manifests.core.service import InferenceService, ServingRuntime
from baseload_manifests.core.service_rules import check_runtime, check_service
from baseload_manifests.core.stack_rules import check_pair, check_reference, check_targets

MODE = "serving.kserve.io/deploymentMode"
PROBE = {"httpGet": {"path": "/readyz", "port": 8080}}
ARGS = ["--snapshot=s3://bucket/name:tag", "--max-num-seqs=8", "--max-queue=64"]


def service(
    name: str = "small",
    *,
    mode: str | None = "Standard",
    namespace: str | None = None,
    model: dict[str, Any] | None = None,
    **predictor: Any,
) -> InferenceService:
    metadata = {"name": name, "namespace": namespace, "annotations": {MODE: mode} if mode else {}}
    whole = {"runtime": "vllm", "modelFormat": {"name": "baseload"}, "args": ARGS, **(model or {})}
    return InferenceService.model_validate(
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": metadata,
            "spec": {"predictor": {"model": whole, **predictor}},
        }
    )


def runtime(*names: str, **container: Any) -> ServingRuntime:
    probes = {"startupProbe": PROBE, "readinessProbe": PROBE, "livenessProbe": PROBE}
    one = {"image": "i", "command": ["python", "-m", "server"], **probes, **container}
    return ServingRuntime.model_validate(
        {
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "ServingRuntime",
            "metadata": {"name": "vllm"},
            "spec": {
                "supportedModelFormats": [{"name": "baseload"}],
                "containers": [{"name": name, **one} for name in names or ("kserve-container",)],
            },
        }
    )


def only(faults: Any) -> Fault:
    (fault,) = faults
    return fault


def test_a_sound_service_and_runtime_have_no_faults() -> None:
    assert check_service(service(minReplicas=1, maxReplicas=1)) == ()
    assert check_runtime(runtime("sidecar", "kserve-container", args=["--model-name={{.Name}}"])) == ()
    assert list(check_pair(service(), runtime())) == []
    assert list(check_reference(service(), ["vllm"])) == []


@pytest.mark.parametrize(
    ("mode", "reason", "fix"),
    [
        (None, "is not set", "add the annotation serving.kserve.io/deploymentMode: Standard"),
        ("RawDeployment", "'RawDeployment' is not a deployment mode", "write Standard"),
        ("Serverless", "'Serverless' is not a deployment mode", "write Knative"),
        ("standard", "'standard' is not a deployment mode", "write Standard"),
        ("x", "'x' is not a deployment mode", "write Standard or Knative"),
    ],
)
def test_the_deployment_mode_is_set_and_spelled_right(mode: str | None, reason: str, fix: str) -> None:
    fault = only(check_service(service(mode=mode)))
    assert fault.field == f"metadata.annotations.{MODE}"
    assert reason in fault.reason
    assert fault.fix == fix


def test_a_floor_of_zero_is_refused() -> None:
    fault = only(check_service(service(minReplicas=0)))
    assert (fault.field, fault.fix) == ("spec.predictor.minReplicas", "write 1 or more")


def test_a_ceiling_below_the_floor_is_refused() -> None:
    fault = only(check_service(service(minReplicas=3, maxReplicas=2)))
    assert (fault.field, fault.fix) == ("spec.predictor.maxReplicas", "write 3 or more")


def test_a_canary_percentage_is_refused_only_where_it_is_ignored() -> None:
    fault = only(check_service(service(canaryTrafficPercent=10)))
    assert fault.field == "spec.predictor.canaryTrafficPercent"
    assert "Splitter" in fault.fix
    assert check_service(service(canaryTrafficPercent=10, mode="Knative")) == ()


@pytest.mark.parametrize("name", ["Small", "1small", "small-", "small.x", ""])
def test_a_name_that_kserve_refuses_is_refused(name: str) -> None:
    assert only(check_service(service(name))).field == "metadata.name"


def test_a_name_leaves_room_for_its_service() -> None:
    assert check_service(service("n" * 53)) == ()
    assert "has 54 characters" in only(check_service(service("n" * 54))).reason


@pytest.mark.parametrize(
    "snapshot",
    [
        "s3://bucket/name",
        "s3://bucket/a/b-c_d:v1.2",
        "s3://my.bucket-1/name@blake3:0a1b",
        "s3://bucket/n:latest",
    ],
)
def test_a_snapshot_reference_may_have_a_tag_or_a_digest(snapshot: str) -> None:
    assert check_service(service(model={"args": ["--snapshot", snapshot]})) == ()


@pytest.mark.parametrize(
    "snapshot",
    [
        "",
        "name",
        "hf://org/name",
        "s3://bucket",
        "s3://bucket/",
        "s3://b/name",
        "s3://bucket/name:",
        "s3://B_/n",
    ],
)
def test_a_malformed_snapshot_reference_is_refused(snapshot: str) -> None:
    fault = only(check_service(service(model={"args": ["--dtype=auto", f"--snapshot={snapshot}"]})))
    if snapshot:
        assert repr(snapshot) in fault.reason
    assert fault.field == "spec.predictor.model.args[1]"
    assert fault.fix.startswith("write s3://BUCKET/NAME")


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", ""])
def test_a_limit_that_is_no_number_is_refused(value: str) -> None:
    fault = only(check_runtime(runtime(args=["--max-queue", value])))
    assert (fault.field, fault.fix) == ("spec.containers[0].args[0]", "write a whole number, 1 or more")


def test_only_one_container_may_be_the_one_that_serves() -> None:
    assert "0 containers are named kserve-container" in only(check_runtime(runtime("main", "x"))).reason
    assert only(check_runtime(runtime("main", "x"))).fix == "name one of main, x so"
    assert "2 containers" in only(check_runtime(runtime("kserve-container", "kserve-container"))).reason


def test_a_placeholder_that_stays_unfilled_is_refused() -> None:
    fault = only(check_service(service(model={"env": [{"name": "A", "value": "{{ .Labels.tier }}"}]})))
    assert fault.field == "spec.predictor.model.env[0].value"
    assert fault.reason == "{{ .Labels.tier }} is not filled in here"
    assert only(check_runtime(runtime(command=["{{.Nam}}"]))).field == "spec.containers[0].command[0]"


def test_a_variable_with_two_values_is_refused() -> None:
    both = {"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    assert only(check_runtime(runtime(env=[both]))).reason == "A has both a value and valueFrom"


def test_a_missing_runtime_is_refused_with_the_one_that_was_meant() -> None:
    fault = only(check_reference(service(model={"runtime": "vlm"}), ["vllm", "other"]))
    assert (fault.field, fault.fix) == ("spec.predictor.model.runtime", "write vllm")
    assert fault.reason == "there is no ServingRuntime 'vlm' in namespace 'default'"
    assert only(check_reference(service(namespace="n"), [])).fix == "add a ServingRuntime"
    assert only(check_reference(service(), ["q", "p"])).fix == "add a ServingRuntime, or name one of: p, q"


def test_a_format_that_the_runtime_does_not_take_is_refused() -> None:
    fault = only(check_pair(service(model={"modelFormat": {"name": "baselode"}}), runtime()))
    assert (fault.field, fault.fix) == ("spec.predictor.model.modelFormat.name", "write baseload")


def test_weights_and_limits_must_be_said_by_the_service_or_its_runtime() -> None:
    faults = list(check_pair(service(model={"args": []}), runtime("side", "kserve-container", args=[])))
    assert [fault.fix for fault in faults] == [
        "add --snapshot=s3://BUCKET/NAME:TAG",
        "add --max-num-seqs=NUMBER",
        "add --max-queue=NUMBER",
    ]
    assert list(check_pair(service(model={"args": []}), runtime(args=ARGS))) == []
    assert list(check_pair(service(model={"args": ["--model-dir=/m"]}), runtime(args=ARGS[1:]))) == []


def graph(*steps: dict[str, Any]) -> InferenceGraphSpec:
    root = {"routerType": "Sequence", "steps": list(steps)}
    return InferenceGraphSpec.model_validate({"nodes": {"root": root}})


@pytest.mark.parametrize(
    "step",
    [
        {"serviceUrl": "http://small-predictor/openai/v1"},
        {"serviceUrl": "http://small-predictor:8080/openai/v1"},
        {"serviceUrl": "http://small-predictor.ns.svc.cluster.local/x"},
        {"serviceUrl": "https://api.example.com/v1"},
        {"serviceUrl": "http://localhost:9000/v1"},
        {"serviceUrl": "http://[::1/malformed"},
        {"serviceName": "small"},
        {"nodeName": "root"},
    ],
)
def test_targets_in_the_stack_or_outside_of_the_cluster_are_taken(step: dict[str, Any]) -> None:
    assert list(check_targets(graph(step), ["small"])) == []


@pytest.mark.parametrize(
    ("step", "field", "fix"),
    [
        ({"serviceUrl": "http://smal-predictor/v1"}, "serviceUrl", "write small-predictor"),
        ({"serviceUrl": "http://smal-predictor.ns.svc/v1"}, "serviceUrl", "write small-predictor"),
        (
            {"serviceUrl": "http://llm/v1"},
            "serviceUrl",
            "add an InferenceService, or name one of: small-predictor",
        ),
        ({"serviceName": "smal"}, "serviceName", "write small"),
    ],
)
def test_a_target_that_is_not_in_the_stack_is_refused(step: dict[str, Any], field: str, fix: str) -> None:
    fault = only(check_targets(graph({"serviceName": "small"}, step), ["small"]))
    assert (fault.field, fault.fix) == (f"spec.nodes.root.steps[1].{field}", fix)


def test_a_service_is_resolved_against_its_runtime() -> None:
    reference = {"secretKeyRef": {"name": "s3", "key": "id"}}
    made = resolve(
        service(
            model={
                "args": [*ARGS, "--max-queue=4"],
                "env": [{"name": "B", "value": "service"}, {"name": "C", "valueFrom": reference}],
            },
            namespace="ns",
            minReplicas=2,
            terminationGracePeriodSeconds=90,
        ),
        runtime(
            "side",
            "kserve-container",
            args=["--model-name={{.Name}}", "--where={{ .Namespace }}"],
            env=[
                {"name": "A", "value": "{{.Name}}"},
                {"name": "B", "value": "runtime"},
                {"name": "C", "value": "plain"},
                {"name": "D"},
            ],
        ),
        "f:1",
    )
    assert made.args == ("--model-name=small", "--where=ns", *ARGS, "--max-queue=4")
    assert made.env == {"A": "small", "B": "service", "D": ""}
    assert made.secret_env == (SecretEnv("C", "s3", "id"),)
    assert (made.host, made.capacity, made.readiness_path) == ("small-predictor", 12, "/readyz")
    assert (made.replicas, made.max_replicas, made.termination_grace_period) == (2, 2, 90.0)
    assert (made.name, made.namespace, made.source) == ("small", "ns", "f:1")
    assert made.command == ("python", "-m", "server")
    assert made.snapshot == "s3://bucket/name:tag"


def test_a_service_overrides_command_and_probe_of_its_runtime() -> None:
    probe = {"httpGet": {"path": "/mine", "port": 1}}
    override = {"command": ["{{.Name}}"], "readinessProbe": probe, "args": ["--model-dir=/m", *ARGS[1:]]}
    made = resolve(service(model=override, maxReplicas=5), runtime(), "f:1")
    assert (made.command, made.readiness_path, made.max_replicas) == (("small",), "/mine", 5)
    assert (made.namespace, made.snapshot) == ("default", None)


def test_the_last_flag_counts_in_either_spelling() -> None:
    found = flag_at(["--a=1", "--ab=2", "--a", "3"], "--a")
    assert found is not None
    assert (found.value, found.index) == ("3", 2)
    trailing = flag_at(["--a"], "--a")
    assert trailing is not None
    assert trailing.value == ""
    assert flag_at(["--ab=2"], "--a") is None


@given(st.text("{}.Namespc x", max_size=30))
def test_filling_leaves_no_known_placeholder_and_touches_nothing_else(text: str) -> None:
    filled = fill(text, "n", "ns")
    assert unknown_placeholders(filled) == unknown_placeholders(text)
    if "{{" not in text:
        assert filled == text
