"""Which inputs of a query are read by the key of its output, by proof alone."""

from __future__ import annotations

import pytest

from controlplane.core.compile import key_types
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.revisions import Revision
from controlplane.core.schema.ddl_schemas import parse_ddl

FLOW = """dataflow: a
components:
  f:
    read: {{connector: files, path: /data/f, format: csv, schema: "k INT, d DATE, v INT"}}
  g:
    read: {{connector: files, path: /data/g, format: csv, schema: "k INT, v INT"}}
  text:
    read: {{connector: files, path: /data/h, format: csv, schema: "k STRING, v INT"}}
  unknown:
    read: {{connector: files, path: /data/i, format: csv}}
  out:
    transform:
      sql: "{sql}"
      partition_by: {key}
      inputs: {hints}
"""
SUMS = "SELECT k, sum(v) AS v FROM f GROUP BY k"


def transform(sql: str, key: str = "[k]", hints: str = "{}", more: str = "") -> Transform:
    text = FLOW.format(sql=sql, key=key, hints=hints).replace("      partition_by: \n", "") + more
    node = (
        compile_revisions([Revision("main", "a", 1, text, {}, "/a.yaml", {}, "", "", 0.0)])
        .require()
        .nodes["a.out"]
    )
    assert isinstance(node, Transform)
    return node


def slots(sql: str, key: str = "[k]", hints: str = "{}") -> dict[str, Slot]:
    return {slot.name: slot for slot in transform(sql, key, hints).slots}


@pytest.mark.parametrize(
    ("sql", "key", "columns"),
    [
        (SUMS, "[k]", ("k",)),
        (SUMS, "[{k: bucket 8}]", ("k",)),
        ("SELECT k, d, max(v) AS v FROM f GROUP BY k, d", "[k, {d: month}]", ("k", "d")),
        ("SELECT k AS other, v FROM f", "[other]", ("k",)),
        (
            "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS place FROM f",
            "[k]",
            ("k",),
        ),
    ],
)
def test_one_input_is_read_by_the_key(sql: str, key: str, columns: tuple[str, ...]) -> None:
    found = slots(sql, key)["f"]
    assert (found.mode, found.columns, found.is_proven) == ("by", columns, True)
    assert found.reason.startswith("`by` ")


def test_what_is_joined_to_it_in_any_other_way_is_read_whole() -> None:
    found = slots("SELECT f.k, g.v FROM f JOIN g ON f.v = g.v")
    assert {name: slot.mode for name, slot in found.items()} == {"f": "by", "g": "all"}


def test_both_sides_are_where_their_columns_are_declared_alike() -> None:
    found = slots("SELECT f.k, g.v FROM f JOIN g ON f.k = g.k")
    assert {name: slot.mode for name, slot in found.items()} == {"f": "by", "g": "by"}


def test_types_that_differ_take_the_proof_from_both_sides() -> None:
    """01 and 1 meet as numbers, and are two keys as texts."""
    result = slots("SELECT f.k, o.v FROM f JOIN text o ON f.k = o.k")
    told = {(slot.shown_mode, slot.reason, slot.cure) for slot in result.values()}
    cure = "to be read by k, CAST it to one type in all of these inputs"
    assert told == {("all", "`all`: k is INT in f and STRING in text", cure)}


PICKED = """  picked:
    transform: {sql: "SELECT k, v FROM g WHERE v > 0"}
"""
JOINS = {
    name: f"SELECT f.k, o.v FROM f LEFT JOIN {name} o ON f.k = o.k"
    for name in ("unknown", "picked")
}
INT, TEXT = parse_ddl("k INT, v INT"), parse_ddl("k STRING, v INT")


@pytest.mark.parametrize("other", JOINS)
def test_types_that_are_not_known_yet_leave_it_undecided(other: str) -> None:
    node = transform(JOINS[other], more=PICKED)
    assert {slot.shown_mode for slot in node.slots} == {"undecided"}
    reason = f"by k or whole: decided once the types of {other} are known"
    assert {slot.reason for slot in node.slots} == {reason}


@pytest.mark.parametrize("other", JOINS)
def test_it_is_decided_once_they_are_known(other: str) -> None:
    node = transform(JOINS[other], more=PICKED)
    same = key_types.decided(node, {"f": INT, other: INT})
    assert {(slot.mode, slot.is_proven) for slot in same.slots} == {("by", True)}
    assert same.slots[0].reason.startswith("`by` k")
    differ = key_types.decided(node, {"f": INT, other: TEXT})
    assert [slot.shown_mode for slot in differ.slots] == ["all", "all"]
    assert differ.slots[1].reason == f"`all`: k is INT in f and STRING in {other}"


def test_a_column_of_which_no_keys_are_made_is_read_whole() -> None:
    node = transform(JOINS["picked"], more=PICKED)
    floats = parse_ddl("k DOUBLE, v INT")
    result = key_types.decided(node, {"f": floats, "picked": floats})
    assert {slot.shown_mode for slot in result.slots} == {"all"}
    assert "of which no keys are made" in result.slots[0].reason


def test_a_decision_has_the_logic_of_its_modes() -> None:
    """What is read whole keeps the logic of releases that read it so; what is read by the key has
    that of a proof."""
    node = transform(JOINS["picked"], more=PICKED)
    whole = transform(JOINS["picked"], hints="{f: all, picked: all}", more=PICKED)
    by_key = key_types.decided(node, {"f": INT, "picked": INT})
    differ = key_types.decided(node, {"f": INT, "picked": TEXT})
    assert node.logic == whole.logic == differ.logic != by_key.logic
    assert node.lineage == whole.lineage == by_key.lineage
    assert node.has_made(by_key.logic)
    assert by_key.has_made(whole.logic)
    declared = transform("SELECT f.k, g.v FROM f LEFT JOIN g ON f.k = g.k")
    assert declared.by_key is None


def test_a_pin_to_what_is_read_whole_is_kept() -> None:
    node = transform(JOINS["picked"], more=PICKED)
    pinned = transform(JOINS["picked"], hints=f"{{}}\n    pin: {node.logic.hex()}", more=PICKED)
    assert (pinned.logic, pinned.own, pinned.by_key) == (node.logic, b"", None)


@pytest.mark.parametrize(
    ("sql", "key", "hints", "cure"),
    [
        (SUMS, "", "{}", "name in `partition_by:` the columns"),
        (SUMS, "[k]", "{f: all}", "leave `f` out of `inputs:`"),
        (
            "SELECT k + 1 AS k, sum(v) AS v FROM f GROUP BY k + 1",
            "[k]",
            "{}",
            "select k as a column",
        ),
        (
            "SELECT k, v FROM f ORDER BY v LIMIT 3",
            "[k]",
            "{}",
            "let each GROUP BY, join and window hold k",
        ),
    ],
)
def test_what_is_read_whole_says_what_to_write(sql: str, key: str, hints: str, cure: str) -> None:
    assert cure in slots(sql, key, hints)["f"].cure


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        # No column has these values
        ("SELECT k + 1 AS k, sum(v) AS v FROM f GROUP BY k + 1", "[k]"),
        ("SELECT k, sum(v) AS v, rank() OVER (ORDER BY sum(v)) AS place FROM f GROUP BY k", "[k]"),
        ("SELECT k, v FROM f ORDER BY v LIMIT 3", "[k]"),
        (SUMS, "[v]"),
    ],
)
def test_what_is_not_proven_is_read_whole(sql: str, key: str) -> None:
    assert slots(sql, key)["f"].mode == "all"


def test_what_is_declared_is_what_is_done() -> None:
    whole = slots(SUMS, hints="{f: all}")["f"]
    assert (whole.mode, whole.columns, whole.is_proven) == ("all", (), False)
    declared = slots(SUMS, hints="{f: by}")["f"]
    assert (declared.mode, declared.columns, declared.is_proven) == ("by", ("k",), False)


EXPECTING = """    expect: [{{name: positive, check: v > 0, on_fail: {on_fail}}}]
"""


def compiled(on_fail: str, mode: str) -> Transform:
    text = FLOW.format(
        sql="SELECT k, max(v) AS v FROM f GROUP BY k", key="[k]", hints=f"{{f: {mode}}}"
    )
    text += EXPECTING.format(on_fail=on_fail)
    node = (
        compile_revisions([Revision("main", "a", 1, text, {}, "/a.yaml", {}, "", "", 0.0)])
        .require()
        .nodes["a.out"]
    )
    assert isinstance(node, Transform)
    return node


def test_rows_are_dropped_also_where_one_task_gives_all_keys() -> None:
    assert [c.is_drop for c in compiled("drop", "all").checks] == [True]
    assert compiled("drop", "all").logic != compiled("warn", "all").logic
    assert [c.quarantines for c in compiled("quarantine", "by").checks] == [True]


def test_rows_are_not_quarantined_there() -> None:
    with pytest.raises(InvalidBlueprint) as refused:
        compiled("quarantine", "all")
    [problem] = refused.value.problems
    assert (problem.file, problem.line, problem.column, problem.code) == (
        "/a.yaml",
        16,
        14,
        "not-supported",
    )
    assert "by` the key" in problem.hint


def test_an_aggregate_of_the_only_input_by_key_has_parts() -> None:
    found = slots("SELECT k, sum(v) AS t, max(struct(v, k)) AS m FROM f GROUP BY k")["f"]
    assert found.reason.endswith("; decomposable: sum, max of parts can be merged")
    joined = slots("SELECT f.k, sum(f.v) AS t FROM f JOIN g ON f.k = g.k GROUP BY f.k")
    assert not [slot for slot in joined.values() if "decomposable" in slot.reason]


EVENTS = """
  events:
    read: {connector: files, path: /data/e, format: csv, schema: "at TIMESTAMP, shop STRING, v INT"}
"""
IN_ANOTHER_ZONE = EVENTS + "timezone: Asia/Kolkata\n"


def windowed(window: str, key: str = "[{m: hour}]", more: str = EVENTS, hints: str = "{}") -> Slot:
    text = (
        f"SELECT {window}.start AS m, shop, sum(v) AS v FROM events GROUP BY {window}.start, shop"
    )
    return transform(text, key, hints, more).slots[0]


@pytest.mark.parametrize(
    ("window", "key"),
    [
        ("window(at, '1 minute')", "[{m: minute}]"),
        ("window(at, '5 minutes')", "[{m: 15 minutes}]"),
        ("WINDOW (at, 'interval 30 Minutes')", "[{m: hour}]"),
        ("window(at, '1 hour')", "[{m: hour}]"),
        ("window(at, '1 hour 30 minutes')", "[{m: day}]"),
        ("window(at, '1 day')", "[{m: month}]"),
        ("window(at, '1 minute')", "[{m: hour}, shop]"),
    ],
)
def test_a_tumbling_window_that_divides_the_granule_is_read_by_its_time(
    window: str, key: str
) -> None:
    slot = windowed(window, key)
    assert (slot.mode, slot.columns[0], slot.is_proven) == ("by", "at", True)
    assert "decomposable: sum of parts can be merged" in slot.reason


TEXTS = EVENTS.replace("at TIMESTAMP", "at STRING")
UNTYPED = EVENTS.replace(', schema: "at TIMESTAMP, shop STRING, v INT"', "")


def test_a_window_over_texts_of_times_is_read_whole() -> None:
    slot = windowed("window(at, '1 minute')", more=TEXTS)
    assert (slot.mode, slot.reason) == ("all", "`all`: events: at is string, which has no hour")


def test_a_window_over_unknown_types_is_decided_once_they_are_known() -> None:
    text = "SELECT window(at, '1 minute').start AS m, v FROM events"
    node = transform(text, "[{m: hour}]", more=UNTYPED)
    assert node.slots[0].awaits_types
    for kind, mode in (("TIMESTAMP", "by"), ("STRING", "all")):
        decided = key_types.decided(node, {"events": parse_ddl(f"at {kind}, v INT")})
        assert (decided.slots[0].mode, decided.slots[0].awaits_types) == (mode, False)


SLIDES = "aggregate by the slide alone in a transform before, for example `window(at, '1 minute')`"
DIVIDES = "take a granule that the windows divide, and the time zone UTC"


@pytest.mark.parametrize(
    ("window", "more", "reason", "cure"),
    [
        (
            "window(at, '90 minutes')",
            EVENTS,
            "a window of 90 minutes may begin in another hour than its rows",
            DIVIDES,
        ),
        (
            "window(at, '1 hour')",
            IN_ANOTHER_ZONE,
            "windows begin by UTC, and each hour by Asia/Kolkata",
            DIVIDES,
        ),
        (
            "window(at, '10 minutes', '1 minute')",
            EVENTS,
            "a row has several sliding windows at line 1",
            SLIDES,
        ),
        (
            f"window(at, '{'1 minute ' * 20}')",
            EVENTS,
            "the key is not `window(column, 'length').start` at line 1",
            "let each GROUP BY, join and window hold m",
        ),
        (
            "window(at, '1 month')",
            EVENTS,
            "the key is not `window(column, 'length').start` at line 1",
            "let each GROUP BY, join and window hold m",
        ),
    ],
)
def test_other_windows_are_read_whole_and_say_why(
    window: str, more: str, reason: str, cure: str
) -> None:
    slot = windowed(window, more=more)
    assert slot.mode == "all"
    assert slot.reason.startswith(f"`all`: {reason}")
    assert cure in slot.cure


@pytest.mark.parametrize("key", ["[m]", "[{m: bucket 16}]"])
def test_a_window_without_a_granule_is_read_whole_and_says_why(key: str) -> None:
    slot = windowed("window(at, '1 hour')", key)
    words = "`all`: m is the start of a window, and has no granule of time"
    assert (slot.mode, slot.reason.split(";")[0]) == ("all", words)
    assert DIVIDES in slot.cure


@pytest.mark.parametrize("timezone", ["UTC", "Etc/UTC", "Z"])
def test_each_name_of_utc_is_utc(timezone: str) -> None:
    more = f"{EVENTS}timezone: {timezone}\n"
    assert windowed("window(at, '1 hour')", more=more).mode == "by"


def test_the_end_of_a_window_is_no_key() -> None:
    text = "SELECT window(at, '1 hour').end AS m FROM events"
    slot = transform(text, "[{m: hour}]", more=EVENTS).slots[0]
    assert (slot.mode, "`window(column, 'length').start`" in slot.reason) == ("all", True)


SESSIONS = (
    "SELECT session_window(at, '30 minutes').start AS m, shop, count(*) AS n FROM events"
    " GROUP BY session_window(at, '30 minutes'), shop"
)


def test_sessions_are_bounded_by_a_key_or_read_whole_on_purpose() -> None:
    by_shop = transform(SESSIONS, "[{shop: bucket 16}]", more=EVENTS).slots[0]
    assert (by_shop.mode, by_shop.columns) == ("by", ("shop",))
    assert "decomposable" not in by_shop.reason
    declared = transform(SESSIONS, "[{m: day}]", "{events: all}", EVENTS).slots[0]
    assert declared.mode == "all"
    for key in ("[{m: day}]", ""):
        with pytest.raises(InvalidBlueprint) as refused:
            transform(SESSIONS, key, more=EVENTS)
        [problem] = refused.value.problems
        assert (problem.code, problem.line) == ("unbounded-session", 13)
        assert "bucket 16" in problem.hint


@pytest.mark.parametrize("is_common", [False, True])
def test_sessions_over_an_input_that_is_read_whole_are_refused_beside_one_by_key(
    is_common: bool,
) -> None:
    sessions = "SELECT session_window(at, '1 hour').start AS s FROM events GROUP BY 1"
    longest = "(SELECT max(s) AS s FROM sessions)"
    if not is_common:
        longest = f"(SELECT max(s) AS s FROM ({sessions}))"
    text = f"SELECT f.k, max(e.s) AS s FROM f CROSS JOIN {longest} e GROUP BY f.k"
    text = f"WITH sessions AS ({sessions}) {text}" if is_common else text
    plain = transform(text.replace("session_window(at, '1 hour').start", "at"), more=EVENTS)
    assert [slot.mode for slot in plain.slots if slot.name == "f"] == ["by"]
    with pytest.raises(InvalidBlueprint) as refused:
        transform(text, more=EVENTS)
    assert [problem.code for problem in refused.value.problems] == ["unbounded-session"]
    bounded = "WITH read AS (SELECT * FROM events) " + SESSIONS.replace("FROM events", "FROM read")
    assert transform(bounded, "[{shop: bucket 16}]", more=EVENTS).slots[0].mode == "by"
