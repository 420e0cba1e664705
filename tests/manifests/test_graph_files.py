"""InferenceGraphs read from files and from --graph-json."""

import json
from pathlib import Path

import pytest

from baseload_manifests.errors import ManifestError
from baseload_manifests.graphs import load_graph, parse_graph_spec

GRAPH = """\
apiVersion: serving.kserve.io/v1alpha1
kind: InferenceGraph
metadata:
  name: {name}
spec:
  routerTimeouts: {{serviceClient: 30}}
  resources: {{limits: {{cpu: "1"}}}}
  nodes:
    root:
      routerType: Splitter
      steps:
        - {{name: stable, serviceUrl: "http://a/openai/v1", weight: {weight}}}
"""


def written(tmp_path: Path, *texts: str) -> Path:
    path = tmp_path / "graph.yaml"
    path.write_text("---\n".join(texts))
    return path


def refused(path: Path, name: str | None = None) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load_graph(path, name)
    return str(caught.value).splitlines()


def test_a_graph_is_read_with_what_a_pod_needs(tmp_path: Path) -> None:
    graph = load_graph(written(tmp_path, "kind: ConfigMap\n", GRAPH.format(name="chat", weight=100)))
    assert graph.metadata.name == "chat"
    assert graph.spec.nodes["root"].steps[0].weight == 100
    assert graph.spec.router_timeouts is not None
    assert graph.spec.router_timeouts.service_client == 30
    assert graph.spec.resources == {"limits": {"cpu": "1"}}


def test_one_of_several_graphs_is_chosen_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, GRAPH.format(name="a", weight=100), GRAPH.format(name="b", weight=100))
    assert load_graph(path, "b").metadata.name == "b"
    assert "holds 2 InferenceGraphs to load (found: a, b)" in refused(path)[0]
    assert "holds 0 InferenceGraphs named 'c' (found: a, b)" in refused(path, "c")[0]


def test_a_file_without_a_graph_is_refused(tmp_path: Path) -> None:
    assert (
        "holds 0 InferenceGraphs to load (found: none)" in refused(written(tmp_path, "kind: ConfigMap\n"))[0]
    )


def test_faults_name_file_line_field_and_fix(tmp_path: Path) -> None:
    path = written(tmp_path, "kind: ConfigMap\n", GRAPH.format(name="Chat", weight=90))
    assert refused(path) == [
        (
            f"{path}:6: metadata.name: 'Chat' is not a valid name. "
            "Fix: use lower-case letters, digits and '-', a letter first, no '-' last"
        ),
        f"{path}:13: spec.nodes.root.steps: the weights add up to 90. Fix: make them add up to 100",
    ]


def test_an_unknown_field_is_refused_with_its_likely_name(tmp_path: Path) -> None:
    text = GRAPH.format(name="chat", weight=100).replace("serviceUrl", "serviceURL")
    assert refused(written(tmp_path, text)) == [
        f"{tmp_path}/graph.yaml:12: spec.nodes.root.steps[0].serviceURL: unknown field. Fix: write serviceUrl"
    ]


def test_a_weight_must_be_a_whole_number(tmp_path: Path) -> None:
    (line,) = refused(written(tmp_path, GRAPH.format(name="chat", weight="'100'")))
    assert "spec.nodes.root.steps[0].weight" in line


def test_graph_json_takes_the_spec_as_the_controller_writes_it() -> None:
    step = {"name": "a", "serviceUrl": "http://a/v1/models/a:predict"}
    text = json.dumps({"nodes": {"root": {"routerType": "Sequence", "steps": [step]}}, "resources": {}})
    assert parse_graph_spec(text, "--graph-json").nodes["root"].steps[0].service_url == step["serviceUrl"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "--graph-json: (syntax): is not JSON"),
        ("[]", "--graph-json: (document): is not a JSON object"),
        ('{"nods": {}}', "--graph-json: nods: unknown field. Fix: write nodes"),
        ('{"nodes": {}}', "--graph-json: nodes: there is no 'root' node, where a request enters"),
    ],
)
def test_graph_json_that_cannot_run_is_refused(text: str, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parse_graph_spec(text, "--graph-json")
    assert says in str(caught.value)
