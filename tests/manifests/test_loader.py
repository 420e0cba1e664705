from pathlib import Path

import pytest

from baseload_manifests.core.graph import InferenceGraph
from baseload_manifests.core.problem import Problem
from baseload_manifests.core.service import InferenceService, Secret, ServingRuntime
from baseload_manifests.errors import ManifestError
from baseload_manifests.loader import Document, parse, read_documents, read_trees

SERVICE = """\
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: small
spec:
  predictor:
    minReplicas: 1
    model:
      runtime: r
      modelFormat:
        name: baseload
"""


def refused(text: str, tmp_path: Path, model: type = InferenceService) -> list[Problem]:
    path = tmp_path / "m.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        [parse(model, document) for document in read_documents(path)]
    return list(caught.value.problems)


def test_a_valid_manifest_is_typed(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(f"# first\n---\n---\n{SERVICE}", encoding="utf-8")
    (document,) = read_documents(path)
    assert (document.source, document.kind, document.name) == (f"{path}:4", "InferenceService", "small")
    assert parse(InferenceService, document).spec.predictor.min_replicas == 1


@pytest.mark.parametrize(
    ("wrong", "right", "line", "field"),
    [
        ("minReplica:", "minReplicas", 7, "spec.predictor.minReplica"),
        ("min_replicas:", "minReplicas", 7, "spec.predictor.min_replicas"),
    ],
)
def test_a_typo_is_refused_with_the_name_that_was_meant(
    tmp_path: Path, wrong: str, right: str, line: int, field: str
) -> None:
    (problem,) = refused(SERVICE.replace("minReplicas:", wrong), tmp_path)
    assert problem == Problem(f"{tmp_path}/m.yaml:{line}", field, "unknown field", f"write {right}")


def test_an_unknown_field_that_resembles_nothing_lists_what_is_known(tmp_path: Path) -> None:
    (problem,) = refused(SERVICE.replace("name: baseload", "name: baseload\n        zzz: 1"), tmp_path)
    assert problem.field == "spec.predictor.model.modelFormat.zzz"
    assert problem.fix == "remove it (known here: name, version)"


def test_a_typo_inside_a_list_names_the_item(tmp_path: Path) -> None:
    env = "      env:\n        - {name: A, vale: b}\n"
    (problem,) = refused(SERVICE + env, tmp_path)
    assert (problem.field, problem.fix) == ("spec.predictor.model.env[0].vale", "write value")


def test_all_problems_of_a_document_are_found_at_once(tmp_path: Path) -> None:
    text = SERVICE.replace("minReplicas: 1", "minReplicas: one").replace("name: small", "nam: small")
    problems = refused(text, tmp_path)
    assert [(problem.field, problem.fix) for problem in problems] == [
        ("metadata.name", "add name"),
        ("metadata.nam", "write name"),
        ("spec.predictor.minReplicas", "change the value 'one'"),
    ]
    assert [problem.file.rpartition(":")[2] for problem in problems] == ["3", "4", "7"]
    assert "valid integer" in problems[2].reason


def test_a_wrong_choice_offers_the_right_one(tmp_path: Path) -> None:
    (near,) = refused(SERVICE.replace("v1beta1", "v1beta2"), tmp_path)
    assert near.fix == "write serving.kserve.io/v1beta1"
    probe = "      readinessProbe: {httpGet: {path: /, port: 1, scheme: FTP}}\n"
    (far,) = refused(SERVICE + probe, tmp_path)
    assert far.fix == "write HTTP or HTTPS"


def test_a_missing_probe_says_what_it_is_for(tmp_path: Path) -> None:
    runtime = "apiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\nmetadata: {name: r}\n"
    container = "{name: c, image: i, command: [c], startupProbe: *p, livenessProbe: *p}"
    spec = f"spec: {{supportedModelFormats: [], containers: [{container}]}}\n".replace(
        "*p", "{httpGet: {path: /, port: 1}}"
    )
    (problem,) = refused(runtime + spec, tmp_path, ServingRuntime)
    assert problem.field == "spec.containers[0].readinessProbe"
    assert problem.fix == "add readinessProbe (without it traffic reaches an engine that still loads)"


def test_a_wrong_value_under_a_free_key_is_found(tmp_path: Path) -> None:
    (problem,) = refused(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  KEY: 1\n", tmp_path, Secret
    )
    assert (problem.file, problem.field) == (f"{tmp_path}/m.yaml:5", "stringData.KEY")


def test_an_unknown_field_below_a_free_key_is_found(tmp_path: Path) -> None:
    graph = "apiVersion: serving.kserve.io/v1alpha1\nkind: InferenceGraph\nmetadata: {name: g}\n"
    text = graph + "spec: {nodes: {root: {routerType: Switch, stepps: []}}}\n"
    (problem,) = refused(text, tmp_path, InferenceGraph)
    assert (problem.field, problem.fix) == ("spec.nodes.root.stepps", "write steps")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [1\nc: 2\n", 3, "is not valid YAML: expected ',' or ']'"),
        ("a: 1\n b: 2\n", 2, "mapping values are not allowed here"),
        ("a: *nowhere\n", 1, "found undefined alias 'nowhere'"),
        ("a: !!python/object:os.system x\n", 1, "could not determine a constructor"),
        ("a: 1\nb: 2\na: 3\n", 3, "is written twice here"),
        ("1: a\n", 1, "the key '1' is not text"),
        ("a: &a [*a]\n", 1, "an alias leads to a part that holds it"),
        ("- a\n", 1, "is not a mapping"),
    ],
)
def test_bad_yaml_names_the_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    (problem,) = refused(text, tmp_path)
    assert problem.file == f"{tmp_path}/m.yaml:{line}"
    assert reason in problem.reason
    assert problem.fix


def test_a_character_that_yaml_forbids_is_refused(tmp_path: Path) -> None:
    (problem,) = refused("a: \x00\n", tmp_path)
    assert (problem.file, problem.field) == (f"{tmp_path}/m.yaml", "(syntax)")


def test_a_bottomless_nesting_is_refused(tmp_path: Path) -> None:
    (problem,) = refused("a: " + "[" * 5000, tmp_path)
    assert (problem.file, problem.reason) == (f"{tmp_path}/m.yaml", "is nested too deeply")


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file"):
        read_documents(tmp_path / "none.yaml")
    with pytest.raises(ManifestError, match="cannot be read"):
        read_documents(tmp_path)
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ManifestError, match="cannot be read"):
        read_documents(tmp_path / "b.yaml")


def test_an_alias_that_is_used_twice_is_a_value_like_any_other() -> None:
    (tree,) = read_trees("a: &x {k: 1}\nb: *x\n", "f")
    assert Document.of(tree).body == {"a": {"k": 1}, "b": {"k": 1}}


def test_json_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"kind": "Secret",\n "metadata": {"name": "s"}}', encoding="utf-8")
    (document,) = read_documents(path)
    assert (document.name, document.locate("metadata.name")) == ("s", f"{path}:2")


def test_a_field_is_located_or_else_the_nearest_part_around_it() -> None:
    (tree,) = read_trees("kind: K\nmetadata:\n  name: n\nspec:\n  items:\n    - a: 1\n", "f")
    document = Document.of(tree)
    assert document.locate("spec.items[0].a") == "f:6"
    assert document.locate("spec.items[0].b.c") == "f:6"
    assert document.locate("spec.items[7]") == "f:5"
    assert document.locate("status") == "f:1"


def test_a_document_without_usable_metadata_has_no_name() -> None:
    assert Document("f", {"metadata": "x"}).name == ""
    assert Document("f", {}).namespace == "default"
    assert Document("f", {"metadata": {"namespace": "n"}}).namespace == "n"
