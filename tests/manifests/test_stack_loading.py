from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from baseload_manifests.core.problem import Problem
from baseload_manifests.errors import ManifestError
from baseload_manifests.stack import load_stack

OVERLAYS = Path(__file__).parents[2] / "manifests/overlays"
Overlay = Callable[[Mapping[str, str]], Path]

SERVICE = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata:\n  name: small\n"
GRAPH = "apiVersion: serving.kserve.io/v1alpha1\nkind: InferenceGraph\nmetadata:\n  name: chat\n"


def refused(folder: Path) -> list[Problem]:
    with pytest.raises(ManifestError) as caught:
        load_stack(folder)
    assert str(caught.value) == "\n".join(str(problem) for problem in caught.value.problems)
    return list(caught.value.problems)


def test_the_local_overlay_is_a_stack_of_two_tiers() -> None:
    stack = load_stack(OVERLAYS / "local")
    small, large = stack.services
    assert (small.name, small.host, small.capacity) == ("small", "small-predictor", 72)
    assert (large.name, large.host, large.capacity) == ("large", "large-predictor", 80)
    assert small.command == ("python", "-m", "baseload_predictors")
    assert {"--model-name=small", "--served-model-name=auto", "--max-model-len=1024"} <= set(small.args)
    assert "--max-model-len=2048" in large.args
    assert small.snapshot == large.snapshot == "s3://baseload/smollm2-135m:latest"
    assert small.env["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert [name for name, secret, key in small.secret_env] == ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]
    assert small.source.endswith("base/services.yaml:3")


def test_the_graph_of_a_stack_comes_typed_and_plain() -> None:
    stack = load_stack(OVERLAYS / "local")
    assert stack.graph.metadata.name == stack.graph_document["metadata"]["name"] == "chat"
    assert set(stack.graph.spec.nodes) == {"root", "small", "large"}


def test_the_standard_overlay_asks_for_gpus_in_its_namespace() -> None:
    services = load_stack(OVERLAYS / "standard").services
    assert {service.namespace for service in services} == {"baseload"}
    assert all("--gpu-memory-utilization=0.90" in service.args for service in services)


def graph_patch(host: str, weight: int) -> dict[str, str]:
    step = (
        f"        - name: stable\n          serviceUrl: http://{host}/openai/v1\n          weight: {weight}\n"
    )
    return {"graph.yaml": f"{GRAPH}spec:\n  nodes:\n    small:\n      steps:\n{step}"}


def test_weights_that_an_overlay_spoils_point_to_the_overlay(overlay: Overlay) -> None:
    folder = overlay(graph_patch("small-predictor", 90))
    (problem,) = refused(folder)
    assert problem.file == f"{folder}/graph.yaml:8"
    assert problem.field == "spec.nodes.small.steps"
    assert (problem.reason, problem.fix) == ("the weights add up to 90", "make them add up to 100")


def test_a_dangling_service_host_points_to_its_line(overlay: Overlay) -> None:
    folder = overlay(graph_patch("smal-predictor", 100))
    (problem,) = refused(folder)
    assert problem.file == f"{folder}/graph.yaml:10"
    assert problem.field == "spec.nodes.small.steps[0].serviceUrl"
    assert problem.fix == "write small-predictor"


@pytest.mark.parametrize(
    ("patch", "line", "field", "fix"),
    [
        ("minReplicas: 0", 7, "spec.predictor.minReplicas", "write 1 or more"),
        ("minReplica: 1", 7, "spec.predictor.minReplica", "write minReplicas"),
        ("maxReplicas: 0", 7, "spec.predictor.maxReplicas", "write 1 or more"),
        (
            "canaryTrafficPercent: 10",
            7,
            "spec.predictor.canaryTrafficPercent",
            "remove it, and split traffic by the weights of a Splitter in the InferenceGraph",
        ),
        ("model: {runtime: baseload-vlm}", 7, "spec.predictor.model.runtime", "write baseload-vllm"),
        (
            "model: {modelFormat: {name: vllm}}",
            7,
            "spec.predictor.model.modelFormat.name",
            "add it to supportedModelFormats, or name one of: baseload",
        ),
    ],
)
def test_a_faulty_patch_is_one_message_with_line_field_and_fix(
    overlay: Overlay, patch: str, line: int, field: str, fix: str
) -> None:
    folder = overlay({"service.yaml": f"{SERVICE}spec:\n  predictor:\n    {patch}\n"})
    (problem,) = refused(folder)
    assert (problem.file, problem.field, problem.fix) == (f"{folder}/service.yaml:{line}", field, fix)


def test_all_faults_of_all_objects_are_reported_together(base: Path) -> None:
    for name, old, new in (
        ("services.yaml", "minReplicas: 1", "minReplicas: 0"),
        ("runtime.yaml", "autoSelect", "autoSelct"),
        ("graph.yaml", "weight: 100", "weight: 90"),
        ("s3.yaml", "kind: Secret", "kind: Secrt"),
    ):
        text = (base / name).read_text(encoding="utf-8")
        (base / name).write_text(text.replace(old, new), encoding="utf-8")
    problems = refused(base)
    assert [(problem.field, problem.fix) for problem in problems] == [
        ("kind", "write Secret"),
        ("spec.supportedModelFormats[0].autoSelct", "write autoSelect"),
        ("spec.predictor.minReplicas", "write 1 or more"),
        ("spec.predictor.minReplicas", "write 1 or more"),
        ("spec.nodes.small.steps", "make them add up to 100"),
        ("spec.nodes.large.steps", "make them add up to 100"),
    ]
    assert all(Path(problem.file.rpartition(":")[0]).is_file() for problem in problems)


def test_a_faulty_runtime_is_still_known_by_its_services(base: Path) -> None:
    text = (base / "runtime.yaml").read_text(encoding="utf-8")
    (base / "runtime.yaml").write_text(text.replace("readinessProbe:", "readinesProbe:"), encoding="utf-8")
    missing, unknown = refused(base)
    assert missing.field == "spec.containers[0].readinessProbe"
    assert (unknown.field, unknown.fix) == ("spec.containers[0].readinesProbe", "write readinessProbe")


def test_a_runtime_in_another_namespace_is_no_runtime(base: Path) -> None:
    text = (base / "runtime.yaml").read_text(encoding="utf-8")
    moved = text.replace("  name: baseload-vllm\n", "  name: baseload-vllm\n  namespace: other\n", 1)
    (base / "runtime.yaml").write_text(moved, encoding="utf-8")
    assert [problem.fix for problem in refused(base)] == ["add a ServingRuntime", "add a ServingRuntime"]


def test_a_container_with_another_name_is_refused(base: Path) -> None:
    text = (base / "runtime.yaml").read_text(encoding="utf-8")
    renamed = text.replace("- name: kserve-container", "- name: main")
    (base / "runtime.yaml").write_text(renamed, encoding="utf-8")
    (problem,) = refused(base)
    assert (problem.field, problem.fix) == ("spec.containers", "name one of main so")


def test_a_stack_needs_services_and_exactly_one_graph(base: Path) -> None:
    kustomization = base / "kustomization.yaml"
    kustomization.write_text("resources: [s3.yaml]\n", encoding="utf-8")
    assert [problem.reason for problem in refused(base)] == [
        "there is no InferenceGraph for the router",
        "there is no InferenceService",
    ]
    second = (base / "graph.yaml").read_text(encoding="utf-8").replace("name: chat", "name: other")
    (base / "second.yaml").write_text(second, encoding="utf-8")
    resources = "resources: [runtime.yaml, services.yaml, graph.yaml, second.yaml]\n"
    kustomization.write_text(resources, encoding="utf-8")
    (problem,) = refused(base)
    assert problem.file == f"{base}/second.yaml:2"
    assert f"a second InferenceGraph beside {base}/graph.yaml:2" in problem.reason


def test_a_kind_that_resembles_none_lists_the_known_ones(base: Path) -> None:
    (base / "x.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", encoding="utf-8")
    kustomization = base / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text(encoding="utf-8") + "  - x.yaml\n", encoding="utf-8")
    (problem,) = refused(base)
    assert (problem.file, problem.field) == (f"{base}/x.yaml:2", "kind")
    assert "remove it (known here: InferenceService" in problem.fix
