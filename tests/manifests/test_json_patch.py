import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_manifests.core.json_patch import apply_json_patch
from baseload_manifests.core.tree import Branch, Items, Leaf, Tree, origins, plain
from baseload_manifests.errors import ManifestError

BASE = {"a": {"b": [1, 2, 3], "x/y": 4, "m~n": 5}, "c": "d"}


def tree(value: Any, origin: str = "f:1") -> Tree:
    if isinstance(value, dict):
        return Branch({key: tree(child, origin) for key, child in value.items()}, origin)
    if isinstance(value, list):
        return Items(tuple(tree(child, origin) for child in value), origin)
    return Leaf(value, origin)


def applied(base: Any, *operations: Any) -> Any:
    patch = tree(list(operations), "patch:1")
    assert isinstance(patch, Items)
    return plain(apply_json_patch(tree(base), patch))


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        (op("add", "/a/b/1", value=9), lambda it: it["a"]["b"].insert(1, 9)),
        (op("add", "/a/b/-", value=9), lambda it: it["a"]["b"].append(9)),
        (op("add", "/a/b/3", value=9), lambda it: it["a"]["b"].append(9)),
        (op("add", "/a/new", value={"k": 1}), lambda it: it["a"].update(new={"k": 1})),
        (op("add", "/c", value=1), lambda it: it.update(c=1)),
        (op("replace", "/a/b/0", value=9), lambda it: it["a"]["b"].__setitem__(0, 9)),
        (op("replace", "/a/x~1y", value=9), lambda it: it["a"].update({"x/y": 9})),
        (op("remove", "/a/m~0n"), lambda it: it["a"].pop("m~n")),
        (op("remove", "/a/b/1"), lambda it: it["a"]["b"].pop(1)),
        (op("move", "/z", **{"from": "/c"}), lambda it: it.update(z=it.pop("c"))),
        (op("move", "/a/b/0", **{"from": "/a/b/2"}), lambda it: it["a"]["b"].insert(0, it["a"]["b"].pop())),
        (op("copy", "/z", **{"from": "/a/b"}), lambda it: it.update(z=[1, 2, 3])),
        (op("test", "/a/b", value=[1, 2, 3]), lambda it: None),
    ],
)
def test_each_operation_does_what_rfc_6902_says(operation: dict[str, Any], change: Any) -> None:
    wanted = copy.deepcopy(BASE)
    change(wanted)
    assert applied(BASE, operation) == wanted


def test_the_empty_path_is_the_whole_document() -> None:
    assert applied(BASE, op("replace", "", value={"k": 1})) == {"k": 1}
    assert applied(BASE, op("add", "", value={"k": 1})) == {"k": 1}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (op("remove", "/a/nope"), "remove '/a/nope': there is no 'nope'"),
        (op("replace", "/a/nope", value=1), "there is no 'nope'"),
        (op("replace", "/a/b/7", value=1), "'7' is not an index below 3"),
        (op("replace", "/a/b/-1", value=1), "'-1' is not an index below 3"),
        (op("add", "/a/b/4", value=1), "'4' is not an index below 4"),
        (op("add", "/c/d", value=1), "there is no 'd'"),
        (op("add", "/x/y", value=1), "there is no 'x'"),
        (op("add", "a", value=1), "path 'a' does not start with '/'"),
        (op("add", "/a"), "it has no 'value'"),
        (op("copy", "/a"), "it has no 'from'"),
        (op("remove", ""), "the whole document can't be removed"),
        (op("test", "/c", value="e"), "the test does not hold: 'd' is not 'e'"),
        ({"op": "add", "value": 1}, "it has no 'path'"),
        (op("put", "/a"), "there is no operation 'put'. Fix: use add, remove, replace, move, copy, test"),
        ("remove /a", "an operation is a mapping"),
    ],
)
def test_an_operation_that_can_not_be_done_is_refused_by_index(operation: Any, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        applied(BASE, op("test", "/c", value="d"), operation)
    (problem,) = caught.value.problems
    assert (problem.file, problem.field) == ("patch:1", "patch[1]")
    assert message in str(problem)


def test_a_value_points_to_the_patch_that_brought_it() -> None:
    patch = tree([op("replace", "/a/b/1", value=9)], "patch:4")
    assert isinstance(patch, Items)
    places = origins(apply_json_patch(tree(BASE), patch))
    assert (places["a.b[0]"], places["a.b[1]"], places["a.b"]) == ("f:1", "patch:4", "f:1")


@given(st.lists(st.integers(), min_size=1, max_size=5), st.data())
def test_adding_and_removing_at_the_same_place_changes_nothing(items: list[int], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(items)))
    path = f"/{index}"
    assert applied(items, op("add", path, value=0), op("remove", path)) == items
