"""Run events are as OpenLineage specifies them, whatever datasets, columns and places are called.

Does not belong here: which events there are (test_export.py).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.blueprint import Read
from controlplane.core.lineage import openlineage_names, run_events
from controlplane.core.lineage.of_node import Edge, NodeLineage
from controlplane.core.lineage.run_events import RunComponent, RunInput
from controlplane.core.model.states import State
from dataplane.contract.schemas import Field, Type, struct_of
from tests.openlineage import spec

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
roots = st.binary(min_size=32, max_size=32)


def field(name: str, kind: Type) -> Field:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def array(kind: Type) -> Type:
    return {"type": "array", "elementType": kind, "containsNull": True}


def mapping(kind: Type) -> Type:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    structs: st.SearchStrategy[Type] = st.lists(st.builds(field, texts, inner), max_size=3).map(
        struct_of
    )
    return inner.map(array) | inner.map(mapping) | structs


kinds: st.SearchStrategy[Type] = st.recursive(
    st.sampled_from(["long", "string", "decimal(38,18)"]), nested, max_leaves=4
)
schemas = st.lists(
    st.builds(field, texts, kinds), max_size=4, unique_by=lambda one: one["name"]
).map(struct_of)
steps = st.lists(st.sampled_from(["IDENTITY", "AGGREGATION", "FILTER", "JOIN"]), max_size=2).map(
    tuple
)
edges = st.lists(st.builds(Edge, texts, texts, steps), max_size=3).map(tuple)
lineages = st.builds(
    NodeLineage,
    texts,
    st.just("sql"),
    st.just("spark"),
    st.dictionaries(texts, edges, max_size=3),
    rows=edges,
)
components = st.builds(
    RunComponent,
    namespace=st.just("default"),
    branch=st.sampled_from(["main", "dev/a-b.c_1"]),
    dataset=texts,
    lake=st.one_of(st.just("s3://bucket/prefix"), texts.map(lambda text: f"file:///{text}")),
    node=st.none(),
    lineage=st.none() | lineages,
    inputs=st.lists(
        st.builds(RunInput, texts, st.none() | roots, st.none() | schemas), max_size=3
    ).map(tuple),
)
times = st.floats(0, 4e9)


def valid(events: list[Any]) -> list[Any]:
    return [spec.valid(json.dumps(event, ensure_ascii=False).encode()) for event in events]


@given(components, schemas, roots, times)
def test_commits(component: RunComponent, schema: Any, root: bytes, at: float) -> None:
    state = State(
        branch=component.branch,
        dataset=component.dataset,
        seq=3,
        generation=2,
        logic=b"",
        inputs={},
        root=root,
        schema=schema,
        cut={},
        partitions=1,
        rows=1,
        cause="input",
        revision=1,
        at=at,
        lineage=b"",
    )
    start, end = valid(run_events.committed(component, state))
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    [output] = end["outputs"]
    assert output["name"] == component.dataset
    named = output["facets"].get("schema", {"fields": []})["fields"]
    assert [one["name"] for one in named] == [one["name"] for one in schema["fields"]]
    assert [one["name"] for one in end["inputs"]] == [one.dataset for one in component.inputs]
    told = output["facets"].get("columnLineage", {"fields": {}})["fields"]
    assert set(told) == set(component.lineage.fields if component.lineage else ())


@given(components, texts, times)
def test_copies_and_failures(component: RunComponent, message: str, at: float) -> None:
    valid(run_events.written(component, 7, 2, at))
    assert [one["eventType"] for one in valid(run_events.failed(component, 1, message, at))] == [
        "START",
        "FAIL",
    ]


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("/data/a b/*.csv", ("file", "/data/a b/*.csv")),
        ("file:///data/x", ("file", "/data/x")),
        ("s3://bucket/a/b", ("s3://bucket", "a/b")),
        ("s3://bucket", ("s3://bucket", "/")),
        ("abfss://box@host.dfs.core.windows.net/a", ("abfss://box@host.dfs.core.windows.net", "a")),
        ("hdfs://name:8020/a", ("hdfs://name:8020", "a")),
        ("anything", ("headgate-place", "anything")),
    ],
)
def test_paths_are_called_as_openlineage_calls_them(location: str, told: tuple[str, str]) -> None:
    assert openlineage_names.of_path(location) == told


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "jdbc:postgresql://db:5432/shop?user=a&password=geheim",
            ("postgresql://db:5432", "shop.public.t"),
        ),
        ("jdbc:mysql://ann:geheim@db/shop", ("mysql://db", "shop.public.t")),
        (
            "jdbc:sqlserver://db:1433;databaseName=shop;user=a;password=geheim",
            ("sqlserver://db:1433", "public.t"),
        ),
        ("jdbc:oracle:thin:ann/geheim@db:1521:shop", ("headgate-place", "public.t")),
        ("secret://warehouse/url", ("headgate-place", "public.t")),
        ("jdbc:postgresql://secret://pg/host/shop", ("headgate-place", "public.t")),
        ("", ("headgate-place", "public.t")),
    ],
)
def test_tables_elsewhere_are_told_without_passwords(url: str, told: tuple[str, str]) -> None:
    found = openlineage_names.place(reading("jdbc", url=url, table="public.t"), "public.t")
    assert found == told
    valid_place(found)


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ("kafka-1:9092,kafka-2:9092", "kafka://kafka-1:9092"),
        ("secret://kafka/servers", "headgate-place"),
        ("", "headgate-place"),
    ],
)
def test_topics_are_told_with_their_first_server(servers: str, told: str) -> None:
    found = openlineage_names.place(reading("kafka", servers=servers), "clicks")
    assert found == (told, "clicks")
    valid_place(found)


@given(texts, texts)
def test_places_of_any_name_are_as_specified(url: str, table: str) -> None:
    valid_place(openlineage_names.place(reading("jdbc", url=f"jdbc:{url}", table=table), table))
    valid_place(openlineage_names.place(reading("jdbc", url=f"jdbc:x://{url}", table=table), table))
    valid_place(openlineage_names.place(reading("kafka", servers=url), table))
    valid_place(openlineage_names.place(reading("files"), f"s3://{url}/{table}"))


def valid_place(found: tuple[str, str]) -> None:
    component = RunComponent(
        namespace="default",
        branch="main",
        dataset="a.b",
        lake="/lake",
        node=None,
        lineage=None,
        inputs=(),
    )
    [event, _] = run_events.written(component, 1, 1, 0.0)
    valid([{**event, "inputs": [run_events.outside(*found)]}])


def reading(connector: str, **settings: str) -> Read:
    return Read(
        connector,
        path="",
        format=connector,
        options=(),
        schema=None,
        refresh_s=None,
        partition=None,
        metadata=(),
        on_bad_record="fail",
        schema_change="fail",
        deletes_max=1.0,
        settings=tuple(settings.items()),
    )
