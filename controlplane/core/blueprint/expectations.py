"""The language of expectations: conditions on rows, unique columns, bounds of how many rows there
are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from controlplane.core.blueprint.event_time import EVENT_TIME
from controlplane.core.blueprint.model import Body, Expectation, Read
from controlplane.core.blueprint.problems import BlueprintRefused, shown
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_places import Position, TextPlace
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Fraction,
    JsonSchema,
    ListOf,
    Passage,
    Reading,
    SourceText,
    Text,
    Whole,
)
from controlplane.core.blueprint.yaml_nodes import Node
from dataplane.contract.jobs import FILES
from dataplane.contract.results import FILE, RECORD

MOST_ROWS = 10**15
LONGEST_NAME = 200
BAD_RECORD = "bad_record"  # the name of the expectation of records
NO_TEXT = Passage("", TextPlace("", 0, 0, exact=False))
NO_COLUMNS: tuple[str, ...] = ()

NAME: Key[str | None] = Key(
    "name",
    Text(),
    None,
    "What it is called in results; by default what it says.",
    example="known carrier",
)
CHECK = Key(
    "check",
    SourceText("SQL"),
    NO_TEXT,
    "A condition on each row. It fails where it is false, not where NULL.",
    example="carrier IS NOT NULL",
)
UNIQUE = Key(
    "unique",
    ListOf(Text()),
    NO_COLUMNS,
    "Columns that no two rows have the same values in.",
    example=["year", "month", "carrier"],
)
LEAST: Key[int | None] = Key(
    "min", Whole(0, MOST_ROWS), None, "The least number of rows.", example=1
)
MOST: Key[int | None] = Key(
    "max", Whole(0, MOST_ROWS), None, "The greatest number of rows.", example=1000000
)
ON_FAIL = Key(
    "on_fail", Choice(("fail", "warn", "drop", "quarantine")), "fail", "What a failure leads to."
)
THRESHOLD = Key("threshold", Fraction(), 0.0, "The share of rows that may fail.", example=0.01)


def _bounds(fields: Fields, reading: Reading) -> tuple[int | None, int | None]:
    least, most = fields[LEAST], fields[MOST]
    if not fields.present((LEAST, MOST)):
        raise reading.refuse(fields.place, "missing-key", "one of the keys min, max is missing")
    if least is not None and most is not None and least > most:
        raise reading.refuse(fields.place, "invalid-value", f"min {least} is more than max {most}")
    return least, most


NO_BOUNDS: tuple[int | None, int | None] | None = None
ROWS = Key(
    "rows", Nested(Section((LEAST, MOST)), _bounds), NO_BOUNDS, "How many rows there may be."
)


LATE = Key(
    "late",
    EVENT_TIME.kind,
    EVENT_TIME.default,
    "Rows of a topic with `late: keep` are on time by this rule. Written out of `late` of its read.",
    example={"column": "at", "delay": "10m"},
)


def _expectation(fields: Fields, reading: Reading) -> Expectation:
    passage, unique, rows, late = fields[CHECK], fields[UNIQUE], fields[ROWS], fields[LATE]
    if not (passage.text or unique or rows or late):
        _report_no_columns(fields, reading)
        # What it expects is missing or cannot be read, which has been reported
        raise BlueprintRefused
    _report_conflicts(fields, reading)
    expectation = Expectation(
        "",
        fields.place,
        passage.text,
        text=passage.place,
        unique=unique,
        rows=rows,
        on_fail=fields[ON_FAIL],
        threshold=fields[THRESHOLD],
        unique_places=fields.item_places(UNIQUE),
        late=late,
    )
    name = fields[NAME] or " ".join(expectation.in_words.split())[:LONGEST_NAME]
    return replace(expectation, name=name)


def _report_no_columns(fields: Fields, reading: Reading) -> None:
    if fields.present((UNIQUE,)) and UNIQUE.name in fields.values:
        reading.problems.add(fields.place, "invalid-value", "'unique' names no column")


def _report_conflicts(fields: Fields, reading: Reading) -> None:
    is_drop = fields[ON_FAIL] in ("drop", "quarantine")
    is_check = bool(fields[CHECK].text) or fields[LATE] is not None
    if fields[LATE] is not None and fields[ON_FAIL] == "warn":
        message = "late rows are dropped, quarantined, or fail"
        reading.problems.add(fields.place, "conflicting-keys", message, "late: correct keeps them")
    if is_drop and not is_check:
        for key in fields.present((ON_FAIL,)):
            message = "only rows that fail a 'check' can be taken out"
            reading.problems.add(key.place, "conflicting-keys", message, "use fail or warn")
    for key in fields.present((THRESHOLD,)):
        if is_drop or fields[LATE]:
            message = "a share of rows that may fail makes no sense where these are taken out"
            reading.problems.add(key.place, "conflicting-keys", message, "remove it")
        elif fields[ROWS]:
            message = "a bound of rows is met or not: there is no share"
            reading.problems.add(key.place, "conflicting-keys", message, "remove it")


EXPECTATION = Nested(
    Section(
        (NAME, CHECK, UNIQUE, ROWS, LATE, ON_FAIL, THRESHOLD),
        one_of=("check", "unique", "rows", "late"),
    ),
    _expectation,
)


@dataclass(frozen=True, slots=True)
class Expectations:
    """A list in which every expectation has a name of its own."""

    def read(self, node: Node, reading: Reading) -> tuple[Expectation, ...]:
        expectations = ListOf(EXPECTATION).read(node, reading)
        names: set[str] = set()
        for expectation in expectations:
            if expectation.name in names:
                message = f"two expectations are called {shown(expectation.name)}"
                reading.problems.add(
                    expectation.place, "invalid-value", message, "give each a 'name' of its own"
                )
            names.add(expectation.name)
        return expectations

    def schema(self) -> JsonSchema:
        return ListOf(EXPECTATION).schema()


def with_records(
    expectations: tuple[Expectation, ...], body: Body, place: Position, reading: Reading
) -> tuple[Expectation, ...]:
    """The expectations of a component. That of its records is the first one, if bad ones are
    quarantined: no other expectation can look at them."""
    if not isinstance(body, Read) or body.on_bad_record != "quarantine":
        return expectations
    for expectation in expectations:
        if expectation.name == BAD_RECORD:
            message = f"{BAD_RECORD!r} is the reason of quarantined records"
            reading.problems.add(expectation.place, "invalid-value", message, "choose another name")
    of_records = Expectation(
        name=BAD_RECORD,
        place=place,
        check="",
        text=NO_TEXT.place,
        unique=(),
        rows=None,
        on_fail="quarantine",
        threshold=0.0,
        record_columns=(RECORD, FILE) if body.connector == FILES else (RECORD,),
    )
    return (of_records, *expectations)


NO_EXPECTATIONS: tuple[Expectation, ...] = ()
EXPECT = Key(
    "expect",
    Expectations(),
    NO_EXPECTATIONS,
    "What is expected of the dataset's rows.",
    example=[{"check": "carrier IS NOT NULL"}],
)
