import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from baseload_manifests.core.problem import Problem
from baseload_manifests.errors import ManifestError
from baseload_manifests.kustomize import render
from baseload_manifests.loader import Document

MANIFESTS = Path(__file__).parents[2] / "manifests"
ROOMS = [MANIFESTS / "base", MANIFESTS / "overlays/local", MANIFESTS / "overlays/standard"]

RUNTIME = """\
apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata:
  name: baseload-vllm
"""


def refused(folder: Path) -> list[Problem]:
    with pytest.raises(ManifestError) as caught:
        render(folder)
    return list(caught.value.problems)


def object_of(documents: list[Document], kind: str, name: str) -> Document:
    return next(found for found in documents if (found.kind, found.name) == (kind, name))


def folder(path: Path, files: Mapping[str, str]) -> Path:
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / name).write_text(text, encoding="utf-8")
    return path


def secret(name: str, extra: str = "") -> str:
    return f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n{extra}"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="NOT COMPARED WITH KUBECTL: it is not installed")
def test_the_shipped_manifests_render_as_kubectl_renders_them(room: Path) -> None:
    done = subprocess.run(["kubectl", "kustomize", str(room)], capture_output=True, text=True, check=True)
    wanted = list(yaml.safe_load_all(done.stdout))
    ours = [document.body for document in render(room)]
    assert sorted(map(repr_sorted, ours)) == sorted(map(repr_sorted, wanted))


def repr_sorted(body: object) -> str:
    return yaml.safe_dump(body, sort_keys=True)


def test_overlays_carry_the_same_merge_keys() -> None:
    texts = {path.read_text(encoding="utf-8") for path in MANIFESTS.glob("overlays/*/merge-keys.json")}
    assert len(texts) == 1
    assert len(list(MANIFESTS.glob("overlays/*/merge-keys.json"))) == len(list(MANIFESTS.glob("overlays/*/")))


def test_a_namespace_is_given_to_every_object() -> None:
    documents = render(MANIFESTS / "overlays/standard")
    assert {document.namespace for document in documents} == {"baseload"}
    assert "kustomization.yaml:" in documents[0].locate("metadata.namespace")


def test_fields_point_to_the_base_or_to_the_patch_that_set_them() -> None:
    runtime = object_of(render(MANIFESTS / "overlays/local"), "ServingRuntime", "baseload-vllm")
    assert runtime.source.startswith(str(MANIFESTS / "base/runtime.yaml:"))
    assert runtime.locate("spec.containers[0].image").startswith(str(MANIFESTS / "base/runtime.yaml:"))
    assert runtime.locate("spec.containers[0].env[0].value") == str(
        MANIFESTS / "overlays/local/runtime.yaml:10"
    )


def test_without_merge_keys_a_patch_replaces_a_list_as_kubectl_does(
    overlay: Callable[[Mapping[str, str]], Path],
) -> None:
    patch = RUNTIME + "spec: {containers: [{name: kserve-container}]}\n"
    runtime = object_of(render(overlay({"p.yaml": patch})), "ServingRuntime", "baseload-vllm")
    assert runtime.body["spec"]["containers"] == [{"name": "kserve-container"}]


def test_kubernetes_own_lists_merge_without_a_schema(overlay: Callable[[Mapping[str, str]], Path]) -> None:
    about = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: baseload-predictor}\n"
    patch = about + "secrets: [{name: more}]\n"
    account = object_of(render(overlay({"p.yaml": patch})), "ServiceAccount", "baseload-predictor")
    assert account.body["secrets"] == [{"name": "more"}, {"name": "baseload-s3"}]


KUSTOMIZATION = """\
resources: [../base]
patches:
  - target: {kind: ServingRuntime}
    patch: |-
      - op: replace
        path: /spec/containers/0/image
        value: mine
  - target: {kind: Inference.*, name: small|large}
    patch: |-
      kind: ignored
      metadata: {name: ignored, labels: {tier: "1"}}
  - target: {}
    patch: 'note: "1"'
  - patch: |-
      $patch: delete
      apiVersion: v1
      kind: Secret
      metadata: {name: baseload-s3}
"""


def test_inline_patches_change_what_their_target_selects(
    overlay: Callable[[Mapping[str, str]], Path],
) -> None:
    at = overlay({"kustomization.yaml": KUSTOMIZATION})
    documents = render(at)
    runtime = object_of(documents, "ServingRuntime", "baseload-vllm")
    assert runtime.body["spec"]["containers"][0]["image"] == "mine"
    assert runtime.locate("spec.containers[0].image") == f"{at}/kustomization.yaml:7"
    labels = {document.name: document.body["metadata"].get("labels") for document in documents}
    assert (labels["small"], labels["large"], labels["chat"]) == ({"tier": "1"}, {"tier": "1"}, None)
    assert "Secret" not in {document.kind for document in documents}
    assert all(document.body["note"] == "1" for document in documents)


def test_an_overlay_over_an_overlay_applies_both(tmp_path: Path) -> None:
    folder(
        tmp_path / "a", {"s.yaml": secret("x"), "kustomization.yaml": "resources: [s.yaml]\nnamespace: one\n"}
    )
    patch = "patches:\n  - {patch: '{apiVersion: v1, kind: Secret, metadata: {name: x}, type: T}'}\n"
    folder(tmp_path / "b", {"kustomization.yaml": f"resources: [../a]\n{patch}namespace: two\n"})
    (document,) = render(tmp_path / "b")
    assert (document.namespace, document.body["type"]) == ("two", "T")
    assert document.locate("type") == f"{tmp_path}/b/kustomization.yaml:3"


def test_a_plain_folder_is_refused_with_the_file_to_write(tmp_path: Path) -> None:
    folder(tmp_path / "plain", {"b.yaml": secret("x"), "a.yml": secret("y"), "c.txt": ""})
    (problem,) = refused(tmp_path / "plain")
    assert problem.file == f"{tmp_path}/plain"
    assert "has 0 kustomization.yaml" in problem.reason
    assert "or add kustomization.yaml with resources: [a.yml, b.yaml]" in problem.fix


def test_an_empty_folder_or_none_is_refused(tmp_path: Path) -> None:
    (empty,) = refused(folder(tmp_path / "empty", {}))
    assert "or add one" in empty.fix
    (none,) = refused(tmp_path / "none")
    assert none.reason == f"{tmp_path}/none is not a folder"


def test_every_missing_resource_is_named_with_its_line(tmp_path: Path) -> None:
    text = "resources:\n  - service.yaml\n  - nothing/at-all.yaml\n"
    at = folder(tmp_path / "k", {"services.yaml": secret("x"), "kustomization.yaml": text})
    first, second = refused(at)
    assert (first.file, first.field) == (f"{at}/kustomization.yaml:2", "resources[0]")
    assert (first.reason, first.fix) == ("service.yaml does not exist", "write services.yaml")
    assert (second.file, second.fix) == (f"{at}/kustomization.yaml:3", "create it, or remove the line")


@pytest.mark.parametrize(
    ("kustomization", "message"),
    [
        (
            "images: []\nresources: [s.yaml]\n",
            ":1: images: this field of kustomize is not supported. Fix: use name",
        ),
        ("resource: [s.yaml]\n", ":1: resource: unknown field. Fix: write resources"),
        ("resources: ['https://host/repo']\n", "is remote, and only files and folders are supported"),
        ("resources: [../base/s3.yaml]\n", "lies outside of"),
        ("resources: [.]\n", "is being built already: the folders form a cycle"),
        ("resources: [s.yaml, s.yaml]\n", "Secret 'x' is already in"),
        (
            "resources: [nameless.yaml]\n",
            "nameless.yaml:1: metadata.name: is missing, so this is no Kubernetes",
        ),
        ("resources: [s.yaml]\npatches: [{}]\n", ":2: patches[0]: has to have a path or an inline patch"),
        ("resources: [s.yaml]\npatches: [{path: no.yaml}]\n", ":2: patches[0].path: no.yaml does not exist"),
        ("resources: [s.yaml]\npatches: [{patch: ''}]\n", "the patch is empty"),
        ("resources: [s.yaml]\npatches: [{patch: a}]\n", "a JSON 6902 patch does not say what it changes"),
        ("resources: [s.yaml]\npatches: [{patch: '[]'}]\n", "Fix: add target: with a kind and a name"),
        (
            "resources: [s.yaml]\npatches:\n- patch: '{apiVersion: v1, kind: Secret, metadata: {name: y}}'\n",
            ":3: metadata.name: matches 0 objects with Secret 'y'. Fix: name one of: Secret x",
        ),
        (
            "resources: [s.yaml]\npatches: [{patch: '{apiVersion: v1, kind: Pod, metadata: {name: xx}}'}]\n",
            "matches 0 objects with Pod 'xx'. Fix: write x",
        ),
        (
            "resources: [s.yaml]\npatches: [{target: {kind: Pod}, patch: '{a: 1}'}]\n",
            ":2: patches[0].target: matches no object. Fix: name one of: Secret x",
        ),
        (
            "resources: [s.yaml]\npatches: [{target: {kind: '('}, patch: '{a: 1}'}]\n",
            "patches[0].target: is not a regular expression",
        ),
        ("resources: [s.yaml]\npatches: [{target: {}, patch: 'a'}]\n", "a patch is a mapping or a list"),
        (
            "resources: [s.yaml]\npatches: [{target: {}, patch: '[{op: remove, path: /metadata}]'}]\n",
            "the patch makes another object of it",
        ),
        (
            "resources: [s.yaml]\npatches: [{target: {}, patch: '[{op: remove, path: /nope}]'}]\n",
            ":2: patch[0]: remove '/nope': there is no 'nope'",
        ),
        ("resources: [s.yaml]\nopenapi: {path: k.json}\n", "k.json does not exist"),
        ("resources: [s.yaml]\nopenapi: {path: s.yaml}\n", "s.yaml is not an OpenAPI schema"),
        ("resources: [s.yaml]\nopenapi: {path: list.json}\n", "list.json is not an OpenAPI schema"),
        ("a: 1\n---\nb: 2\n", "holds 2 documents. Fix: keep one"),
        ("resources: [broken.yaml]\n", "broken.yaml:2: (syntax): is not valid YAML"),
        ("resources: [../deep]\n", ":1: openapi: counts only in the folder that is built"),
        ("resources: [../bare]\n", ":1: resources[0]: "),
    ],
)
def test_what_can_not_be_rendered_is_one_message(tmp_path: Path, kustomization: str, message: str) -> None:
    folder(tmp_path / "base", {"s3.yaml": secret("x")})
    folder(tmp_path / "bare", {})
    folder(tmp_path / "deep", {"k.json": "{}", "kustomization.yaml": "openapi: {path: k.json}\n"})
    files = {"s.yaml": secret("x"), "nameless.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {}\n"}
    more = {"list.json": "[]", "broken.yaml": "a: [\n", "kustomization.yaml": kustomization}
    (problem,) = refused(folder(tmp_path / "k", {**files, **more}))
    assert message in str(problem)
    assert problem.fix


def test_a_cycle_through_another_folder_is_refused(tmp_path: Path) -> None:
    folder(tmp_path / "a", {"kustomization.yaml": "resources: [../b]\n"})
    folder(tmp_path / "b", {"kustomization.yaml": "resources:\n  - ../a\n"})
    (problem,) = refused(tmp_path / "a")
    assert (problem.file, problem.field) == (f"{tmp_path}/b/kustomization.yaml:2", "resources[0]")
    assert "form a cycle" in problem.reason


def test_a_base_may_have_merge_keys_of_its_own_when_the_top_has_them(tmp_path: Path) -> None:
    keys = (MANIFESTS / "overlays/local/merge-keys.json").read_text(encoding="utf-8")
    inner = "resources: [s.yaml]\nopenapi: {path: k.json}\n"
    folder(tmp_path / "a", {"s.yaml": secret("x"), "k.json": keys, "kustomization.yaml": inner})
    folder(
        tmp_path / "b", {"k.json": keys, "kustomization.yaml": "resources: [../a]\nopenapi: {path: k.json}\n"}
    )
    assert [document.name for document in render(tmp_path / "b")] == ["x"]


@pytest.mark.parametrize("about", ['["v1"]', "1.5", "[{}, 7]"])
def test_a_schema_with_a_malformed_part_is_refused(tmp_path: Path, about: str) -> None:
    broken = f'{{"definitions": {{"K": {{"x-kubernetes-group-version-kind": {about}}}}}}}'
    text = "resources: [s.yaml]\nopenapi: {path: k.json}\n"
    at = folder(tmp_path / "k", {"s.yaml": secret("x"), "k.json": broken, "kustomization.yaml": text})
    (problem,) = refused(at)
    assert problem.file == f"{at}/kustomization.yaml:2"
    assert f"{at}/k.json is not an OpenAPI schema" in problem.reason
