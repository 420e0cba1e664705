from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_manifests.core.merge_keys import BUILT_IN, GroupKind, KeysOfKind, read_merge_keys
from baseload_manifests.core.overlay import merge
from baseload_manifests.core.tree import Branch, Items, Leaf, Tree, field_text, origins, plain
from baseload_manifests.errors import ManifestError

NO_KEYS: KeysOfKind = {}
NAMED: KeysOfKind = {("containers",): "name", ("containers", "env"): "name"}


def tree(value: Any, origin: str) -> Tree:
    """``value`` as a tree that was all written in one place."""
    if isinstance(value, dict):
        return Branch({key: tree(child, origin) for key, child in value.items()}, origin)
    if isinstance(value, list):
        return Items(tuple(tree(child, origin) for child in value), origin)
    return Leaf(value, origin)


def branch(value: dict[str, Any], origin: str = "f:1") -> Branch:
    made = tree(value, origin)
    assert isinstance(made, Branch)
    return made


def merged(base: dict[str, Any], patch: dict[str, Any], keys: KeysOfKind = NO_KEYS) -> Any:
    result = merge(branch(base, "base:1"), branch(patch, "patch:1"), keys)
    return None if result is None else plain(result)


def refusal(base: dict[str, Any], patch: dict[str, Any], keys: KeysOfKind = NO_KEYS) -> str:
    with pytest.raises(ManifestError) as caught:
        merged(base, patch, keys)
    return str(caught.value)


def test_mappings_merge_and_scalars_replace() -> None:
    assert merged({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 4, "z": 5}}) == {
        "a": {"x": 1, "y": 4, "z": 5},
        "b": 3,
    }


def test_null_removes_a_key_and_never_adds_one() -> None:
    assert merged({"a": 1, "b": 2}, {"a": None, "c": None, "d": {"e": None}}) == {"b": 2, "d": {}}


def test_a_list_without_merge_key_is_replaced_as_kubectl_does() -> None:
    base = {"containers": [{"name": "c", "image": "i"}], "args": ["a", "b"]}
    patch = {"containers": [{"name": "c", "env": []}], "args": ["z"]}
    assert merged(base, patch) == patch


def test_a_list_with_merge_key_merges_item_by_item_new_items_first() -> None:
    base = {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B"}]}]}
    patch = {"containers": [{"name": "c", "env": [{"name": "N"}, {"name": "A", "value": "2"}]}]}
    assert merged(base, patch, NAMED) == {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "N"}, {"name": "A", "value": "2"}, {"name": "B"}]}
        ]
    }


def test_a_keyed_list_that_the_base_lacks_is_added() -> None:
    assert merged({}, {"containers": [{"name": "c", "x": None}]}, NAMED) == {"containers": [{"name": "c"}]}


def test_delete_removes_an_item_a_mapping_or_the_whole_object() -> None:
    base = {"containers": [{"name": "c"}, {"name": "d"}], "m": {"a": 1}}
    patch = {"containers": [{"name": "c", "$patch": "delete"}], "m": {"$patch": "delete"}}
    assert merged(base, patch, NAMED) == {"containers": [{"name": "d"}]}
    assert merged(base, {"$patch": "delete"}) is None


def test_replace_puts_a_mapping_in_place_of_the_old_one() -> None:
    assert merged({"m": {"a": 1}}, {"m": {"$patch": "replace", "b": 2}}) == {"m": {"b": 2}}
    assert merged({"m": {"a": 1}}, {"m": {"$patch": "merge", "b": 2}}) == {"m": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    ("base", "patch", "message"),
    [
        ({"a": {}}, {"a": 1}, "patch:1: a: a patch can't put a list or a scalar where a mapping is"),
        (
            {"a": {"b": 1}},
            {"a": {"b": {}}},
            "patch:1: a.b: a patch can't put a mapping where a list or a scalar",
        ),
        ({"a": 1}, {"a": [1]}, "patch:1: a: a patch can't put a list where a scalar is"),
        ({"a": {}}, {"a": {"$patch": "remove"}}, "$patch: remove is not known. Fix: write delete, replace"),
        ({"a": {}}, {"a": {"$retainKeys": []}}, "the directive $retainKeys is not supported"),
        (
            {"a": []},
            {"a": [{"name": "x", "$patch": "delete"}]},
            "is replaced, not merged, so $patch means nothing",
        ),
        (
            {},
            {"containers": [{"image": "i"}]},
            "containers: an item of this list has no name, by which it merges",
        ),
        (
            {"containers": ["c"]},
            {"containers": [{"name": "i"}]},
            "base:1: containers: an item of this list has no",
        ),
    ],
)
def test_what_would_be_a_guess_is_refused(base: dict[str, Any], patch: dict[str, Any], message: str) -> None:
    assert message in refusal(base, patch, NAMED)


def test_each_field_points_to_the_file_that_set_it() -> None:
    base = branch({"spec": {"min": 1, "containers": [{"name": "c", "image": "i"}]}}, "base:1")
    patch = branch({"spec": {"min": 2, "containers": [{"name": "c", "tag": "t"}]}}, "patch:9")
    result = merge(base, patch, {("spec", "containers"): "name"})
    assert result is not None
    assert origins(result) == {
        "spec": "base:1",
        "spec.min": "patch:9",
        "spec.containers": "patch:9",
        "spec.containers[0]": "base:1",
        "spec.containers[0].name": "patch:9",
        "spec.containers[0].image": "base:1",
        "spec.containers[0].tag": "patch:9",
    }


def test_the_whole_document_has_a_name_as_a_field() -> None:
    assert field_text(()) == "(document)"


KEYS = st.sampled_from("abcd")
SCALARS = st.none() | st.integers(0, 3) | st.text("xy", max_size=2)
VALUES = st.recursive(
    st.integers(0, 3) | st.lists(SCALARS, max_size=3),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


def shape_like(value: Any) -> st.SearchStrategy[Any]:
    """Patches for ``value``: null, something of the same shape, or new keys in a mapping."""
    if isinstance(value, dict):
        known: dict[str, st.SearchStrategy[Any]] = {
            key: st.none() | shape_like(child) for key, child in value.items()
        }
        fresh = dict.fromkeys("efg", VALUES)
        return st.fixed_dictionaries({}, optional={**known, **fresh})
    return st.lists(SCALARS, max_size=3) if isinstance(value, list) else st.integers(0, 3)


@given(st.data(), OBJECTS)
def test_a_patch_applied_twice_is_applied_once(data: st.DataObject, base: dict[str, Any]) -> None:
    patch = data.draw(shape_like(base))
    once = merged(base, patch)
    assert merged(once, patch) == once


@given(st.data(), OBJECTS)
def test_keys_that_a_patch_leaves_out_stay_as_they_are(data: st.DataObject, base: dict[str, Any]) -> None:
    patch = data.draw(shape_like(base))
    result = merged(base, patch)
    for key in base.keys() - patch.keys():
        assert result[key] == base[key]
    for key, value in patch.items():
        assert (key in result) == (value is not None)


ENV = st.lists(
    st.fixed_dictionaries({"name": KEYS, "value": st.text("xy", max_size=2)}),
    unique_by=lambda item: item["name"],
)


@given(ENV, ENV)
def test_a_keyed_merge_keeps_every_name_once_and_the_patch_wins(base: list[Any], patch: list[Any]) -> None:
    keys: KeysOfKind = {("env",): "name"}
    result = merged({"env": base}, {"env": patch}, keys)["env"]
    assert [item["name"] for item in result] == [
        *(item["name"] for item in patch),
        *(item["name"] for item in base if item["name"] not in {each["name"] for each in patch}),
    ]
    wanted = {item["name"]: item["value"] for item in (*base, *patch)}
    assert {item["name"]: item["value"] for item in result} == wanted
    assert merged({"env": result}, {"env": patch}, keys)["env"] == result


def schema(**properties: Any) -> dict[str, Any]:
    about = [{"group": "g", "version": "v1", "kind": "K"}]
    return {"properties": properties, "x-kubernetes-group-version-kind": about}


def keyed(key: str, items: dict[str, Any]) -> dict[str, Any]:
    return {"items": items, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": key}


def test_merge_keys_are_read_from_a_schema_through_references() -> None:
    part = {"properties": {"ports": keyed("port", {}), "args": {"items": {}}}}
    spec = {"properties": {"parts": keyed("name", {"$ref": "#/definitions/Part"})}}
    assert read_merge_keys({"definitions": {"K": schema(spec=spec), "Part": part}}) == {
        GroupKind("g", "K"): {("spec", "parts"): "name", ("spec", "parts", "ports"): "port"}
    }


def test_a_schema_that_holds_itself_ends() -> None:
    node = {"properties": {"children": keyed("name", {"$ref": "#/definitions/Node"})}}
    definitions = {"K": schema(root={"$ref": "#/definitions/Node"}), "Node": node}
    assert read_merge_keys({"definitions": definitions}) == {
        GroupKind("g", "K"): {("root", "children"): "name"}
    }


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({}, "needs a mapping 'definitions'"),
        ({"definitions": {"K": 1}}, "needs a mapping 'definitions'"),
        ({"definitions": {"K": {}}}, "no definition says its x-kubernetes-group-version-kind"),
        ({"definitions": {"K": schema(a={"$ref": "#/definitions/No"})}}, "'#/definitions/No' leads nowhere"),
    ],
)
def test_a_schema_that_says_nothing_is_refused(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_merge_keys(broken)


def test_kubernetes_own_kinds_have_their_keys_built_in() -> None:
    keys = BUILT_IN[GroupKind("", "ServiceAccount")]
    assert merged({"secrets": [{"name": "a"}]}, {"secrets": [{"name": "b"}]}, keys) == {
        "secrets": [{"name": "b"}, {"name": "a"}]
    }
