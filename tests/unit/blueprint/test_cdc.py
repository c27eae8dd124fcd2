"""`cdc:` is a transform that is written out: its components, how they read their inputs, and what
is refused."""

from __future__ import annotations

import re

import pytest

from controlplane.core.blueprint import SqlTransform, parse, written_out
from controlplane.core.blueprint.cdc import OWN_COLUMN, OWN_COLUMN_OF_TWO_TIMES
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Transform
from controlplane.core.errors import InvalidBlueprint, Problem
from controlplane.core.model.revisions import Revision
from controlplane.operations.desired.compile_edit import compile_with_tests
from controlplane.operations.desired.drafts import SentBlueprint

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
    "      history: versions\n      valid_from: effective_at\n",
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
    assert modes in ({}, {"truncates": ("all", False)})
    assert not any(slot.cure for slot in customers.slots)
    assert not customers.is_volatile
    assert [(part.column, part.buckets) for part in customers.key] == [("id", 64)]


def test_events_of_snapshots_are_read_by_bucket_too() -> None:
    text = EVENTS + SNAPSHOTS + "      buckets: 8\n"
    customers = node(text, "customers")
    assert {slot.name: slot.mode for slot in customers.slots} == {
        "events": "by",
        "snapshots": "all",
    }
    assert [part.buckets for part in customers.key] == [8]


@pytest.mark.parametrize("sequence", ["[lsn]", "[day, lsn]"])
def test_snapshots_are_listed_in_parts(sequence: str) -> None:
    text = EVENTS + SNAPSHOTS.replace("[lsn]", sequence)
    snapshots = node(text, "customers_snapshots")
    assert snapshots.query is not None
    assert "GROUP BY 1" in str(snapshots.query.split("events"))


def test_the_query_does_not_depend_on_the_name_of_its_component() -> None:
    text = EVENTS + CUSTOMERS + MORE[3]
    renamed = node(text.replace("customers:", "clients:"), "clients")
    assert node(text, "customers").logic == renamed.logic


@pytest.mark.parametrize("name", ["values", "truncates", "orders.truncates"])
def test_any_name_may_be_that_of_the_events(name: str) -> None:
    flow, _, of = name.rpartition(".")
    events = EVENTS.replace("  events:", f"  {of}:")
    customers = CUSTOMERS.replace("from: events", f"from: {name}") + MORE[3]
    texts = {"shop": events + customers}
    if flow:
        texts = {flow: events.replace("shop", flow), "shop": EVENTS + customers}
    revisions = [Revision("main", *x, {}, FILE, {}, "ann", "r", 0.0) for x in _numbered(texts)]
    nodes = compile_revisions(revisions).require().nodes
    modes = {slot.dataset: slot.mode for slot in nodes["shop.customers"].slots}
    assert modes == {f"{flow or 'shop'}.{of}": "by", "shop.customers_truncates": "all"}


def _numbered(texts: dict[str, str]) -> list[tuple[str, int, str]]:
    return [(flow, 1, text) for flow, text in texts.items()]


@pytest.mark.parametrize("more", [*MORE, "      snapshots: true\n      history: versions\n"])
def test_no_key_is_called_like_a_column_of_the_query(more: str) -> None:
    component = SNAPSHOTS if "snapshots" in more else CUSTOMERS
    lines = (component + more.replace("      snapshots: true\n", "")).splitlines(keepends=True)
    customers = node(EVENTS + "".join(lines), "customers")
    assert customers.query is not None
    columns = re.findall(r"AS (_\w+)", customers.query.text)
    steps = re.findall(r"(_\w+) AS \(", customers.query.text)
    assert columns
    own = [OWN_COLUMN, *([OWN_COLUMN_OF_TWO_TIMES] if "valid_from" in more else [])]
    names = {*columns} - {*steps}
    assert not [name for name in names if not any(some.fullmatch(name) for some in own)]


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


TYPES = {
    "id": "BIGINT",
    "shop": "STRING",
    "lsn": "INT",
    "op": "STRING",
    "n": "INT",
    "day": "DATE",
}


@pytest.mark.parametrize(
    ("more", "added"),
    [
        ("", {}),
        ("      partial: [n]\n      truncates: op = 'T'\n", {}),
        ("      history: versions\n", {"_valid_from": "INT", "_valid_to": "INT"}),
        (
            "      history: versions\n      valid_from: day\n",
            {"_valid_from": "DATE", "_valid_to": "DATE", "_known_from": "INT", "_known_to": "INT"},
        ),
    ],
)
def test_types_and_lineage_follow_from_a_list_of_columns(more: str, added: dict[str, str]) -> None:
    customers = node(EVENTS + CUSTOMERS + "      columns: [n]\n" + more, "customers")
    inputs = {"events": TYPES, "truncates": {"_sequence": "INT"}}
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
    ("valid_from: day", "conflicting-keys", "history: none"),
    (
        "history: versions\n      valid_from: day\n      truncates: op = 'T'",
        "conflicting-keys",
        "valid_from",
    ),
    ("history: versions\n      valid_from: id", "invalid-value", "named twice"),
    ("history: versions\n      valid_from: _known_to", "invalid-value", "reserved"),
    ("history: versions\n      valid_from: _valid_from", "invalid-value", "reserved"),
    ("columns: {except: [ID]}", "invalid-value", "'ID'"),
    ("columns: {except: [phone]}\n      partial: [phone]", "invalid-value", "'phone'"),
    ("partial: [shop]", "invalid-value", "'shop'"),
    ("history: versions\n      track: {except: [id]}", "invalid-value", "'id'"),
    ("truncates: op =", "invalid-sql", ""),
    ("truncates: op IN (SELECT 1)", "not-a-condition", "no other"),
    ("truncates: rand() < 0.5", "not-supported", "rand"),
    ("truncates: max(op) = 'T'", "not-a-condition", "aggregate max"),
    ("truncates: count(*) OVER (PARTITION BY id) > 1", "not-a-condition", "by itself"),
    ("truncates: is_truncate(op)", "not-a-condition", "is_truncate is not known"),
    ("truncates: op = 'T', true", "not-a-condition", "one expression"),
    ("truncates: op = 'T' AS t", "not-a-condition", "one expression"),
    ("truncates: op = 'T' t", "invalid-sql", "'t'"),
    ("columns: [name]\n      partial: [phone]", "invalid-value", "'phone'"),
    ("partial: [phone, PHONE]", "invalid-value", "twice"),
    ("history: versions\n      columns: [_Valid_to]", "invalid-value", "'_Valid_to'"),
    ("buckets: 0", "invalid-value", "from 1"),
    ("on_tie: any", "invalid-value", "fail, greatest or upsert"),
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


@pytest.mark.parametrize(
    ("keys", "words"), [("[id, ID]", "named twice"), ("[_Sequence]", "reserved")]
)
def test_names_of_keys_that_cannot_be(keys: str, words: str) -> None:
    [problem] = problems(CUSTOMERS.replace("[id, shop]", keys))
    assert (problem.code, problem.line) == ("invalid-value", 10)
    assert words in problem.message


def test_a_key_may_be_called_like_a_column_that_is_none_of_the_query() -> None:
    assert node(EVENTS + CUSTOMERS.replace("[id, shop]", "[id, _at]"), "customers").slots


def test_names_of_two_times_are_reserved_only_beside_valid_from() -> None:
    text = CUSTOMERS.replace("[id, shop]", "[id, _Since]") + "      history: versions\n"
    assert node(EVENTS + text, "customers").slots
    [problem] = problems(f"{text}      valid_from: day\n")
    assert (problem.code, problem.line) == ("invalid-value", 10)
    assert "reserved" in problem.message


@pytest.mark.parametrize("name", ["cust_", "c" * 95])
def test_a_name_with_no_room_for_another_is_reported_at_the_component(name: str) -> None:
    [problem] = problems(CUSTOMERS.replace("customers:", f"{name}:") + MORE[2])
    assert (problem.code, problem.line, problem.column) == ("invalid-name", 5, 3)


@pytest.mark.parametrize("kind", ["DOUBLE", "TIMESTAMP", "STRUCT<a: INT>"])
def test_a_first_key_of_which_no_buckets_are_made_is_told_at_keys(kind: str) -> None:
    events = EVENTS.replace("parquet}", f"parquet, schema: 'id {kind}, lsn INT, op STRING'}}")
    text = events + CUSTOMERS.replace("[id, shop]", "[id]")
    [problem] = compile_with_tests([SentBlueprint(FILE, text, {})]).problems
    assert (problem.code, problem.line) == ("invalid-value", 10)
    assert "no keys are made" in problem.message


@pytest.mark.parametrize(("given", "count"), [("", 1), (", truncates: [{_sequence: 5}]", 0)])
def test_a_test_gives_the_truncates(given: str, count: int) -> None:
    test = f"    tests: [{{name: a, given: {{events: [{{id: 1}}]{given}}}, expect: []}}]\n"
    text = EVENTS + CUSTOMERS + MORE[2] + test
    found = compile_with_tests([SentBlueprint(FILE, text, {})]).problems
    assert [(p.code, p.line) for p in found] == [("missing-key", 14)] * count


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
