"""Dependencies between components: names, order, cycles, and what lies up and down the stream."""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.blueprint import (
    Blueprint,
    Component,
    Position,
    SqlTransform,
    TextPlace,
    Write,
    parse,
)
from controlplane.core.compile.dependency_graph import Graph, Reference, build
from controlplane.core.errors import InvalidBlueprint, Problem

NOWHERE = TextPlace("", 1, 1, exact=False)


def flow(inputs: Mapping[str, list[str]], name: str = "f") -> Blueprint:
    """A dataflow of SQL components. Their text is the names that they read."""
    components = (
        Component(
            n, Position(f"{name}.yaml", line, 1), SqlTransform(" ".join(read), NOWHERE, (), ())
        )
        for line, (n, read) in enumerate(inputs.items(), 1)
    )
    return Blueprint(
        name,
        "",
        "UTC",
        parse("dataflow: d\ncomponents: {}", file="").spark,
        tuple(components),
        f"{name}.yaml",
    )


def references(_: Blueprint, component: Component) -> tuple[Reference, ...]:
    body = component.body
    names = (
        body.sql.split()
        if isinstance(body, SqlTransform)
        else [body.source]
        if isinstance(body, Write)
        else []
    )
    at = component.place
    return tuple(Reference(n, Position(at.file, at.line, 10 + i)) for i, n in enumerate(names))


def graph(*flows: Mapping[str, list[str]], known: Container[str] = ()) -> Graph:
    return build([flow(f, name) for f, name in zip(flows, "fgh", strict=False)], references, known)


def problems(*flows: Mapping[str, list[str]]) -> tuple[Problem, ...]:
    with pytest.raises(InvalidBlueprint) as caught:
        graph(*flows)
    return caught.value.problems


def test_inputs_come_first_and_ties_are_broken_by_name() -> None:
    found = graph({"z": ["b", "a"], "a": [], "b": ["c"], "c": []})
    assert found.order == ("f.a", "f.c", "f.b", "f.z")
    assert found.inputs("f.z") == {"b": "f.b", "a": "f.a"}


def test_other_dataflows_are_named_in_full() -> None:
    found = graph({"a": ["g.a", "f.b", "b"], "b": []}, {"a": ["b"], "b": []})
    assert found.inputs("f.a") == {"g.a": "g.a", "f.b": "f.b", "b": "f.b"}
    assert found.inputs("g.a") == {"b": "g.b"}
    assert found.component("g.a")[0].dataflow == "g"


def test_known_datasets_are_inputs_without_components() -> None:
    found = graph({"a": ["other.b"]}, known={"other.b"})
    assert (found.order, found.inputs("f.a")) == (("f.a",), {"other.b": "other.b"})
    assert found.upstream(["f.a"]) == {"other.b"}
    assert found.downstream(["other.b"]) == {"f.a"}


def test_names_are_found_without_regard_to_case() -> None:
    assert graph({"a": ["B"], "b": []}).inputs("f.a") == {"B": "f.b"}


def test_up_and_down_the_stream() -> None:
    found = graph({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "x": []})
    assert found.downstream(["f.b"]) == {"f.d"}
    assert found.downstream(["f.a", "f.x"]) == {"f.b", "f.c", "f.d"}
    assert found.upstream(["f.d"]) == {"f.a", "f.b", "f.c"}
    assert found.downstream(["f.nothing"]) == found.upstream(["f.a"]) == set()


def test_missing_inputs_with_the_closest_name() -> None:
    found = problems({"flights": [], "daily": ["flihts", "g.rows", "flihts"]}, {"rowz": []})
    assert [(p.code, p.line, p.column) for p in found] == [
        ("missing-input", 2, 10),
        ("missing-input", 2, 11),
    ]
    assert found[0].hint == "did you mean 'flights'?"
    assert "g.rowz" in found[1].hint


def test_self_references() -> None:
    assert [(p.code, p.column) for p in problems({"a": ["a", "f.a"]})] == [
        ("self-reference", 10),
        ("self-reference", 11),
    ]


def test_a_write_component_is_no_dataset() -> None:
    text = "dataflow: f\ncomponents:\n  out:\n    write: {connector: files, from: a, path: o, format: csv}\n"
    write = parse(text, file="f.yaml").components[0]
    own = flow({"a": [], "b": ["out"]})
    blueprint = Blueprint(own.dataflow, "", "UTC", own.spark, (*own.components, write), own.file)
    with pytest.raises(InvalidBlueprint) as caught:
        build([blueprint], references)
    assert [(p.code, p.line) for p in caught.value.problems] == [("input-is-write", 2)]


def test_write_components_are_nodes() -> None:
    text = "dataflow: f\ncomponents:\n  a: {read: {connector: files, path: a, format: csv}}\n"
    text += "  out:\n    write: {connector: files, from: a, path: o, format: csv}\n"
    found = build([parse(text, file="f.yaml")], references)
    assert (found.order, found.inputs("f.out")) == (("f.a", "f.out"), {"a": "f.a"})


def test_one_dataflow_declared_twice() -> None:
    with pytest.raises(InvalidBlueprint) as caught:
        build([flow({"a": []}), flow({"b": []})], references)
    assert [p.code for p in caught.value.problems] == ["duplicate-dataflow"]


def test_cycles_are_spelled_out_in_the_direction_of_the_data() -> None:
    (found,) = problems({"s": [], "a": ["c", "s"], "b": ["a"], "c": ["b"], "after": ["c"]})
    assert (found.code, found.line) == ("cycle", 2)
    assert found.message.startswith("f.a -> f.b -> f.c -> f.a ")


def test_every_knot_is_reported_beside_other_problems() -> None:
    found = problems(
        {"a": ["b"], "b": ["a"], "between": ["b"], "c": ["g.d", "between"], "x": ["y"]},
        {"d": ["f.c"]},
    )
    assert [(p.code, p.line) for p in found] == [("cycle", 1), ("cycle", 4), ("missing-input", 5)]


def test_a_deep_chain_and_a_long_cycle_need_no_recursion() -> None:
    names = [f"n{n:05}" for n in range(10_000)]
    chain = {name: [before] for before, name in pairwise(names)}
    found = graph({names[0]: [], **chain})
    assert found.order == tuple(f"f.{n}" for n in names)
    assert (
        len(found.downstream([f"f.{names[0]}"])) == len(found.upstream([f"f.{names[-1]}"])) == 9_999
    )
    (problem,) = problems({names[0]: [names[-1]], **chain})
    assert problem.code == "cycle"
    assert len(problem.message) < 500


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.lists(st.sampled_from("abcdefgh"), max_size=3))
)
def test_an_order_or_a_reason_why_there_is_none(inputs: dict[str, list[str]]) -> None:
    try:
        order = graph(inputs).order
    except InvalidBlueprint as e:
        closed = all(name in inputs for read in inputs.values() for name in read)
        codes = {p.code for p in e.problems}
        assert closed is False or codes <= {"cycle", "self-reference"}
    else:
        assert sorted(order) == sorted(f"f.{n}" for n in inputs)
        assert all(
            order.index(f"f.{source}") < order.index(f"f.{n}")
            for n, read in inputs.items()
            for source in read
        )
