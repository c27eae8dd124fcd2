"""The language of `cdc:`: a dataset with the newest row, or all versions, of each key in a log of
changes.

    customers:
      cdc:
        from: customer_events
        keys: [id]
        sequence_by: [lsn]
        deletes: op = 'D'

It is written out as a transform by `cdc_expansion`; `cdc_query` has its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from controlplane.core.blueprint.key_columns import MOST_BUCKETS
from controlplane.core.blueprint.problems import Code, shown
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_places import Position, TextPlace
from controlplane.core.blueprint.transforms import DATASET
from controlplane.core.blueprint.value_kinds import (
    Choice,
    Fault,
    Flag,
    JsonSchema,
    ListOf,
    Passage,
    Reading,
    SourceText,
    Text,
    Whole,
)
from controlplane.core.blueprint.yaml_nodes import Entries, Node

BUCKETS = 64
MOST_KEYS = 16
NO_COLUMNS: tuple[str, ...] = ()
SPAN = ("_valid_from", "_valid_to")
KNOWN_SPAN = ("_known_from", "_known_to")
RENAMING = "give the column another name in a transform before"
# Columns of the steps of the query, beside which the keys stand
OWN_COLUMN = re.compile(
    "_(sequence|deleted|deleted_at|row|tracked|partial|text|fault|state|tie|last|counts|value(_[0-9]+)?"
    "|number|beside|end|is_live|before|version|from|next|valid_from|valid_to)",
    re.IGNORECASE,
)
# Those that `valid_from` adds
OWN_COLUMN_OF_TWO_TIMES = re.compile(
    "_(since|start|later|until|place|after|known_from|known_to)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """Columns besides the keys: those that are named, or all but those."""

    names: tuple[str, ...] = ()
    is_exclusion: bool = True


@dataclass(frozen=True, slots=True)
class ChangeData:
    """What a `cdc:` or `distinct:` section says. Conditions are empty where there is none.

    `untracked`: columns whose changes open no version. `partial`: columns in which NULL keeps the
    value before. `upsert_wins`: over deletes of its sequence. `is_of_snapshots`: rows with one
    sequence are all rows of that moment.
    `valid_from`: the column with the valid time, which is the last of `keys` then.
    `keeps_first`: the first event of a key counts, in place of the newest one; with `within_s` each
    event that comes more than so many seconds after the one before it.
    """

    source: str
    keys: tuple[str, ...]
    sequence: tuple[str, ...]
    columns: ColumnChoice
    fails_on_tie: bool
    buckets: int
    upsert_wins: bool = False
    deletes: str = ""
    truncates: str = ""
    has_versions: bool = False
    untracked: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    is_of_snapshots: bool = False
    keeps_first: bool = False
    within_s: float | None = None
    valid_from: str = ""

    @property
    def own_keys(self) -> tuple[str, ...]:
        """Without the valid time."""
        return self.keys[:-1] if self.valid_from else self.keys


def _column_fault(text: str) -> Fault | None:
    return None if text.strip() else Fault("invalid-value", "a column without a name")


COLUMN = Text((_column_fault,), "", "the name of a column")
COLUMN_LIST = ListOf(COLUMN)
EXCEPT = Key("except", COLUMN_LIST, NO_COLUMNS, "All columns but these.", example=["op"])
EXCEPTION = Nested(Section((EXCEPT,)), lambda fields, _: fields[EXCEPT])


@dataclass(frozen=True, slots=True)
class ColumnChoices:
    """A list of columns, or `{except: [...]}`."""

    def read(self, node: Node, reading: Reading) -> ColumnChoice:
        if isinstance(node, Entries):
            return ColumnChoice(EXCEPTION.read(node, reading))
        return ColumnChoice(COLUMN_LIST.read(node, reading), is_exclusion=False)

    def schema(self) -> JsonSchema:
        return {"anyOf": [COLUMN_LIST.schema(), EXCEPTION.schema()]}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one row. Its faults are reported at their places."""

    text = SourceText("SQL")

    def read(self, node: Node, reading: Reading) -> Passage:
        from controlplane.core import sql  # slow to import, and rarely needed

        passage = self.text.read(node, reading)
        try:
            sql.row_predicate(passage.text)
        except sql.SqlProblem as e:
            at = passage.place.at(e.line, e.column)
            code = cast("Code", e.code)  # one of SQL, which are on the same page
            raise reading.refuse(at, code, e.message, e.hint) from None
        return passage

    def schema(self) -> JsonSchema:
        return self.text.schema()


NO_CONDITION = Passage("", TextPlace("", 1, 1, exact=False))
FROM = Key(
    "from",
    DATASET,
    "",
    "The dataset of events or rows.",
    is_required=True,
    example="customer_events",
)
KEYS = Key(
    "keys",
    COLUMN_LIST,
    NO_COLUMNS,
    "Columns that tell rows apart. Values of the first one make the buckets.",
    is_required=True,
    example=["id"],
)
SEQUENCE_BY = Key(
    "sequence_by",
    COLUMN_LIST,
    NO_COLUMNS,
    "Columns that order the events of a key: the greatest wins.",
    is_required=True,
    example=["lsn"],
)
DELETES = Key(
    "deletes", Condition(), NO_CONDITION, "Which events delete their key.", example="op = 'D'"
)
TRUNCATES = Key(
    "truncates",
    Condition(),
    NO_CONDITION,
    "Which events delete all keys, up to their place in the sequence.",
    example="op = 'T'",
)
COLUMNS = Key(
    "columns",
    ColumnChoices(),
    ColumnChoice(),
    "Columns of the result besides the keys; all where it is left out.",
    example={"except": ["op", "lsn"]},
)
HISTORY = Key(
    "history",
    Choice(("none", "versions")),
    "none",
    "none: the newest row of each key. versions: all of them, with _valid_from and _valid_to.",
)
VALID_FROM = Key(
    "valid_from",
    COLUMN,
    "",
    "The column that says from when on the row of an event is valid: versions of two times.",
    example="effective_at",
)
TRACK = Key(
    "track",
    EXCEPTION,
    NO_COLUMNS,
    "Columns whose changes open no version; it shows their last value.",
    example={"except": ["seen_at"]},
)
PARTIAL = Key(
    "partial",
    COLUMN_LIST,
    NO_COLUMNS,
    "Columns in which NULL keeps the value before.",
    example=["phone"],
)
ON_TIE = Key(
    "on_tie",
    Choice(("fail", "greatest", "upsert")),
    "fail",
    "Different events of one key and sequence. greatest: a delete wins, then the greatest row. "
    "upsert: it wins over deletes, and different ones fail.",
)
BUCKET_COUNT = Key(
    "buckets", Whole(1, MOST_BUCKETS), BUCKETS, "How many partitions the keys are spread over."
)
SNAPSHOTS = Key(
    "snapshots",
    Flag(),
    False,
    "Whether the rows with one sequence are all rows of that moment: a missing key is deleted.",
)


def _change_data(fields: Fields, reading: Reading) -> ChangeData:
    report_counts(fields, (KEYS, SEQUENCE_BY), reading)
    _report_conflicts(fields, reading)
    report_columns(fields, reading)
    _report_untracked(fields, reading)
    span = SPAN if fields[HISTORY] == "versions" else NO_COLUMNS
    known_span = KNOWN_SPAN if fields[VALID_FROM] else NO_COLUMNS
    report_names(fields, (KEYS, SEQUENCE_BY, PARTIAL), span + known_span, reading)
    return ChangeData(
        source=fields[FROM],
        keys=(*fields[KEYS], *([fields[VALID_FROM]] if fields[VALID_FROM] else [])),
        sequence=fields[SEQUENCE_BY],
        valid_from=fields[VALID_FROM],
        deletes=fields[DELETES].text,
        truncates=fields[TRUNCATES].text,
        columns=fields[COLUMNS],
        has_versions=fields[HISTORY] == "versions",
        untracked=fields[TRACK],
        partial=fields[PARTIAL],
        fails_on_tie=fields[ON_TIE] != "greatest",
        upsert_wins=fields[ON_TIE] == "upsert",
        buckets=fields[BUCKET_COUNT],
        is_of_snapshots=fields[SNAPSHOTS],
    )


def report_counts(fields: Fields, lists: Iterable[Key[tuple[str, ...]]], reading: Reading) -> None:
    """Lists of columns that are empty or too long."""
    for key in lists:
        place = fields.place_of(key)
        if place is None or key.name not in fields.values:
            continue
        count = len(fields[key])
        if not 1 <= count <= MOST_KEYS:
            message = f"{count} columns in {key.name!r}"
            reading.problems.add(place, "invalid-value", message, f"name 1 to {MOST_KEYS}")


def _report_conflicts(fields: Fields, reading: Reading) -> None:
    """Keys that mean nothing beside each other."""
    if fields[HISTORY] == "versions":
        hint = "fill the columns in a transform that reads the versions, or remove history"
        _conflict(fields, PARTIAL, "history: versions", hint, reading)
    else:
        hint = "write history: versions, or remove it"
        for of_versions in (TRACK, VALID_FROM):
            _conflict(fields, of_versions, "history: none, which has no versions", hint, reading)
    for of_all_keys in (TRUNCATES, SNAPSHOTS) if fields[VALID_FROM] else ():
        hint = "end each key by an event with deletes"
        _conflict(fields, of_all_keys, "valid_from", hint, reading)
    for key in (DELETES, TRUNCATES, PARTIAL) if fields[SNAPSHOTS] else ():
        hint = "remove it: a snapshot has all rows of its moment, and no others"
        _conflict(fields, key, "snapshots", hint, reading)


def _conflict(fields: Fields, key: Key[object], other: str, hint: str, reading: Reading) -> None:
    for written in fields.present((key,)):
        message = f"{key.name!r} cannot stand beside {other}"
        reading.problems.add(written.place, "conflicting-keys", message, hint)


def report_columns(fields: Fields, reading: Reading) -> None:
    """Keys that are left out of the result."""
    chosen = fields[COLUMNS]
    absent = chosen.names if chosen.is_exclusion else ()
    hint = "keys are always columns of the result"
    place = fields.place_of(COLUMNS)
    _report_shared(absent, fields[KEYS], place, "a key is left out", hint, reading)


def _report_untracked(fields: Fields, reading: Reading) -> None:
    """Columns that are left out in one place and needed in another one."""
    keys, chosen, partial = fields[KEYS], fields[COLUMNS], fields[PARTIAL]
    absent = chosen.names if chosen.is_exclusion else ()
    place = fields.place_of(TRACK)
    hint = "keys are always columns of the result"
    _report_shared(fields[TRACK], keys, place, "a key is not tracked", hint, reading)
    if fields[VALID_FROM]:
        _report_valid_from(fields, reading)
    place = fields.place_of(PARTIAL)
    _report_shared(partial, keys, place, "a key is partial", "remove it", reading)
    hint = "name it in one of both"
    _report_shared(partial, absent, place, "a partial column is left out", hint, reading)
    if not chosen.is_exclusion:
        named = {name.casefold() for name in chosen.names}
        unlisted = [name for name in partial if name.casefold() not in named]
        hint = "name it in columns, too"
        _report_shared(unlisted, unlisted, place, "a partial column is left out", hint, reading)


def _report_valid_from(fields: Fields, reading: Reading) -> None:
    """The name of the valid time, and names that the steps after it need for themselves."""
    place, valid = fields.place_of(VALID_FROM), [fields[VALID_FROM]]
    _report_shared(valid, fields[KEYS], place, "a column is named twice", "name it once", reading)
    _report_own(valid, OWN_COLUMN, place, reading)
    _report_own(valid, OWN_COLUMN_OF_TWO_TIMES, place, reading)
    _report_own(fields[KEYS], OWN_COLUMN_OF_TWO_TIMES, fields.place_of(KEYS), reading)


def _report_own(
    names: Iterable[str], own_column: re.Pattern[str], place: Position | None, reading: Reading
) -> None:
    own = [name for name in names if own_column.fullmatch(name)]
    _report_shared(own, own, place, "a reserved name", RENAMING, reading)


def report_names(
    fields: Fields,
    lists: Iterable[Key[tuple[str, ...]]],
    reserved: Sequence[str],
    reading: Reading,
) -> None:
    """Columns that are named twice, and names that the result or its query needs for itself."""
    listed = () if fields[COLUMNS].is_exclusion else fields[COLUMNS].names
    for key in lists:
        _report_twice(fields[key], fields.place_of(key), reading)
    _report_twice(listed, fields.place_of(COLUMNS), reading)
    _report_own(fields[KEYS], OWN_COLUMN, fields.place_of(KEYS), reading)
    _report_shared(listed, reserved, fields.place_of(COLUMNS), "a reserved name", RENAMING, reading)


def _report_twice(names: Sequence[str], place: Position | None, reading: Reading) -> None:
    folded = [name.casefold() for name in names]
    twice = [name for at, name in enumerate(folded) if name in folded[:at]]
    _report_shared(twice, twice, place, "a column is named twice", "name it once", reading)


def _report_shared(
    names: Sequence[str],
    others: Iterable[str],
    place: Position | None,
    what: str,
    hint: str,
    reading: Reading,
) -> None:
    folded = {name.casefold() for name in others}
    for name in names:
        if place is not None and name.casefold() in folded:
            reading.problems.add(place, "invalid-value", f"{what}: {shown(name)}", hint)


CDC: Key[ChangeData | None] = Key(
    "cdc",
    Nested(
        Section(
            (
                FROM,
                KEYS,
                SEQUENCE_BY,
                DELETES,
                TRUNCATES,
                COLUMNS,
                HISTORY,
                VALID_FROM,
                TRACK,
                PARTIAL,
                ON_TIE,
                BUCKET_COUNT,
                SNAPSHOTS,
            )
        ),
        _change_data,
    ),
    None,
    "The newest row, or all versions, of each key in a dataset of changes.",
    example={"from": "customer_events", "keys": ["id"], "sequence_by": ["lsn"]},
)
