"""`cdc:` is a transform that is written out: its components, how they read their inputs, and what
is refused."""

from __future__ import annotations

import pytest

from controlplane.core.blueprint import SqlTransform, parse, written_out
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Transform
from controlplane.core.errors import InvalidBlueprint, Problem
from controlplane.core.model.revisions import Revision

FILE = "/work/shop.yaml"
EVENTS = """\
dataflow: shop
components:
  events:
    read: {connector: files, path: /e/*.parquet, format: parquet}
"""
CUSTOMERS = """\
  customers:
    owner: ann
    description: Customers
    cdc:
      from: events
      keys: [id, shop]
      sequence_by: [lsn]
      deletes: op = 'D'
"""
MORE = [
    "",
    "      on_tie: greatest\n",
    "      truncates: op = 'T'\n",
    "      truncates: op = 'T'\n      history: versions\n",
    "      history: versions\n      track: {except: [seen]}\n      columns: {except: [op]}\n",
    "      partial: [phone]\n      truncates: op = 'T'\n      columns: [name, phone]\n",
]
SNAPSHOTS = CUSTOMERS.replace("deletes: op = 'D'", "snapshots: true")


def node(text: str, name: str) -> Transform:
    revision = Revision("main", "shop", 1, text, {}, FILE, {}, "ann", "r", 0.0)
    compiled = compile_revisions([revision]).require().nodes[f"shop.{name}"]
    assert compiled.is_transform
    return compiled


@pytest.mark.parametrize("more", MORE)
def test_events_are_read_by_bucket_of_the_first_key(more: str) -> None:
    customers = node(EVENTS + CUSTOMERS + more, "customers")
    modes = {slot.name: (slot.mode, slot.is_proven) for slot in customers.slots}
    assert modes.pop("events") == ("by", True)
    assert modes in ({}, {"customers_truncates": ("all", False)})
    assert not any(slot.cure for slot in customers.slots)
    assert not customers.is_volatile
    assert [(part.column, part.buckets) for part in customers.key] == [("id", 64)]


def test_events_of_snapshots_are_read_by_bucket_too() -> None:
    text = EVENTS + SNAPSHOTS + "      buckets: 8\n"
    customers = node(text, "customers")
    assert {slot.name: slot.mode for slot in customers.slots} == {
        "events": "by",
        "customers_snapshots": "all",
    }
    assert [part.buckets for part in customers.key] == [8]


def test_truncates_are_a_component_of_their_own_that_is_row_wise() -> None:
    text = EVENTS + CUSTOMERS + MORE[2]
    truncates = node(text, "customers_truncates")
    assert [(slot.name, slot.mode) for slot in truncates.slots] == [("events", "each")]
    assert truncates.component.owner == "ann"
    assert truncates.component.description == ""


@pytest.mark.parametrize("more", MORE)
def test_the_text_that_is_shown_is_the_same_blueprint(more: str) -> None:
    short = EVENTS + CUSTOMERS + more
    long = written_out(short, file=FILE)
    assert "cdc:" not in long
    for name in ("customers", "customers_truncates")[: 1 + ("truncates" in more)]:
        assert node(short, name).logic == node(long, name).logic


def test_names_and_conditions_stand_in_the_query_as_they_are_written() -> None:
    text = EVENTS + (
        "  odd:\n    cdc:\n      from: events\n      keys: ['a `b', \"it's\"]\n"
        "      sequence_by: [x]\n      deletes: |\n        op = 'D' -- gone\n"
    )
    odd = node(text, "odd")
    assert odd.query is not None
    assert odd.query.parsed
    assert "`a ``b`, `it's`" in odd.query.text
    assert "no a `b or no it\\'s" in odd.query.text


TYPES = {"id": "BIGINT", "shop": "STRING", "lsn": "INT", "op": "STRING", "n": "INT"}


@pytest.mark.parametrize(
    ("more", "added"),
    [
        ("", {}),
        ("      partial: [n]\n      truncates: op = 'T'\n", {}),
        ("      history: versions\n", {"_valid_from": "INT", "_valid_to": "INT"}),
    ],
)
def test_types_and_lineage_follow_from_a_list_of_columns(more: str, added: dict[str, str]) -> None:
    customers = node(EVENTS + CUSTOMERS + "      columns: [n]\n" + more, "customers")
    inputs = {"events": TYPES, "customers_truncates": {"_sequence": "INT"}}
    types = {slot.name: inputs[slot.name] for slot in customers.slots}
    assert customers.query is not None
    outputs = {"id": "BIGINT", "shop": "STRING", "n": "INT", **added}
    assert dict(customers.query.output_types(types) or ()) == outputs
    lineage = customers.query.lineage(types)
    assert lineage is not None
    assert list(lineage["fields"]) == list(outputs)
    names = {source["field"] for source in lineage["fields"]["n"]["inputFields"]}
    assert {"n"} <= names <= TYPES.keys() | {"_sequence"}


def test_a_template_may_hold_most_of_it() -> None:
    text = (
        'dataflow: shop\ntemplates:\n  log:\n    params: {of: }\n    cdc: {from: "${of}", keys: [id], '
        "sequence_by: [lsn]}\ncomponents:\n"
        "  events: {read: {connector: files, path: /e/*.parquet, format: parquet}}\n"
        "  rows: {template: log, params: {of: events}, cdc: {buckets: 2}}\n"
    )
    assert [part.buckets for part in node(text, "rows").key] == [2]


def problems(components: str) -> list[Problem]:
    with pytest.raises(InvalidBlueprint) as refused:
        parse(EVENTS + components, file=FILE)
    return list(refused.value.problems)


WRONG = [
    ("history: versions\n      partial: [phone]", "conflicting-keys", "history: versions"),
    ("track: {except: [seen]}", "conflicting-keys", "history: none"),
    ("columns: {except: [ID]}", "invalid-value", "'ID'"),
    ("columns: {except: [phone]}\n      partial: [phone]", "invalid-value", "'phone'"),
    ("partial: [shop]", "invalid-value", "'shop'"),
    ("history: versions\n      track: {except: [id]}", "invalid-value", "'id'"),
    ("truncates: op =", "invalid-sql", ""),
    ("truncates: op IN (SELECT 1)", "not-a-condition", "no other"),
    ("truncates: rand() < 0.5", "not-supported", "rand"),
    ("buckets: 0", "invalid-value", "from 1"),
    ("on_tie: any", "invalid-value", "fail or greatest"),
    ("columns: name", "wrong-type", "a list"),
    ("colums: [name]", "unknown-key", "colums"),
    ("snapshots: true", "conflicting-keys", "'deletes'"),
]


@pytest.mark.parametrize(("more", "code", "words"), WRONG)
def test_what_means_nothing_is_refused_at_its_place(more: str, code: str, words: str) -> None:
    [problem] = problems(f"{CUSTOMERS}      {more}\n")
    assert problem.code == code
    assert words in problem.message
    line = (EVENTS + CUSTOMERS + f"      {more}\n").splitlines()[problem.line - 1]
    is_about_deletes = code == "conflicting-keys" and "deletes" in words
    assert ("deletes" if is_about_deletes else more.splitlines()[-1].partition(":")[0]) in line or (
        code == "invalid-value" and "columns" in line
    )


def test_keys_and_sequence_are_needed() -> None:
    found = problems("  customers:\n    cdc: {from: events, keys: []}\n")
    assert [(p.code, p.message) for p in found] == [
        ("missing-key", "the key 'sequence_by' is missing"),
        ("invalid-value", "0 columns in 'keys'"),
    ]


def test_the_name_beside_it_is_taken() -> None:
    own = "  customers_truncates: {transform: {sql: SELECT 1 AS a}}\n"
    [problem] = problems(CUSTOMERS + MORE[2] + own)
    assert (problem.code, problem.line) == ("name-clash", 13)


def test_a_component_has_one_body() -> None:
    [problem] = problems(CUSTOMERS + "    transform: {sql: SELECT 1 AS a}\n")
    assert problem.code == "conflicting-keys"


def test_a_dataset_that_is_not_there_is_told_at_from() -> None:
    text = EVENTS + CUSTOMERS.replace("from: events", "from: evnts")
    revision = Revision("main", "shop", 1, text, {}, FILE, {}, "ann", "r", 0.0)
    [problem] = compile_revisions([revision]).problems
    assert (problem.code, problem.line, problem.column) == ("missing-input", 9, 13)


def test_queries_of_components_are_plain_transforms() -> None:
    components = parse(EVENTS + CUSTOMERS, file=FILE).components
    assert [type(c.body) for c in components[1:]] == [SqlTransform]
