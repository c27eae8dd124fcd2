"""The queries that `cdc:` and `distinct:` stand for.

A result is a function of the multiset of events of each key: neither their order nor the
partitions that hold them count. So the queries use `max` of structs, and windows over the numbers
that `rank` gives to moments, but nothing that depends on the order of rows.

Steps, each a common table expression:

    _events     the columns that matter, and the error of a bad event (`_fault`)
    _changes    what each event says of its key (`_state`)
    _moments    one row for each key and place in the sequence: equal events become one
    _newest     the newest moment of each key; with `partial` of those after the last delete
    _spaced     with `within` each moment with the time of the one before
    _marks      each mark once, with the one beside it
    _versions   runs of moments with equal tracked columns
    _points     and others of `cdc_bitemporal`

A second dataset holds the marks: places in the sequence that concern all keys, namely those of
truncates or of snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.core.blueprint import cdc_bitemporal
from controlplane.core.blueprint.cdc import ChangeData

LONGEST_MESSAGE = 400  # of an error, in characters
_FALSE = "false"
_LOOSELY_EQUAL = "float|double|collate"  # types of which values differ and compare as equal


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _dataset(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _condition(text: str) -> str:
    """NULL is no. A line of its own ends comments of the text."""
    return f"coalesce((\n    {text.strip()}\n  ), false)" if text else _FALSE


def _with(steps: Sequence[tuple[str, str]], last: str) -> str:
    clauses = (f"{name} AS (\n{query}\n)" for name, query in steps)
    return f"WITH {', '.join(clauses)}\n{last}\n"


def result_query(cdc: ChangeData, marks: str) -> str:
    """The rows of the result. `marks`: the name of the rows of `marks_query`; empty where there is none."""
    query = _Query(cdc, marks)
    if cdc.within_s is not None:
        return query.spaced(cdc.within_s)
    if cdc.has_versions:
        return query.versions()
    return query.filled() if cdc.partial else query.newest()


def marks_query(cdc: ChangeData) -> str:
    """The places in the sequence that concern all keys."""
    sequence, source = _sequence(cdc), _dataset(cdc.source)
    if cdc.is_of_snapshots:
        columns = ", ".join(map(quoted, cdc.sequence))
        return f"SELECT {sequence} AS _sequence\nFROM {source}\nGROUP BY {columns}\n"
    error = f"cdc-null-sequence: a truncate of {cdc.source} has no {', '.join(cdc.sequence)}"
    return (
        f"SELECT CASE WHEN {_any_null(cdc.sequence)} THEN raise_error({_literal(error)})\n"
        f"  ELSE {sequence} END AS _sequence\n"
        f"FROM {source}\n"
        f"WHERE {_condition(cdc.truncates)}\n"
    )


def _sequence(cdc: ChangeData) -> str:
    names = ", ".join(map(quoted, cdc.sequence))
    return names if len(cdc.sequence) == 1 else f"struct({names})"


def _any_null(names: Iterable[str]) -> str:
    return " OR ".join(f"{quoted(name)} IS NULL" for name in names)


@dataclass(frozen=True, slots=True)
class _Query:
    cdc: ChangeData
    marks: str

    @property
    def keys(self) -> str:
        return ", ".join(map(quoted, self.cdc.keys))

    @property
    def over_key(self) -> str:
        return f"PARTITION BY {self.keys}"

    @property
    def choice(self) -> str:
        """The aggregate that chooses one of the events of a key."""
        return "min" if self.cdc.keeps_first else "max"

    # --- events and moments ---

    def _struct(self, left_out: Sequence[str]) -> str:
        """The columns of the result but the keys and these."""
        chosen = self.cdc.columns
        if not chosen.is_exclusion:
            return f"struct({', '.join(map(quoted, self._listed(left_out)))})"
        names = (*self.cdc.keys, *left_out, *chosen.names)
        without = {name.casefold(): quoted(name) for name in names}
        return f"struct(* EXCEPT ({', '.join(without.values())}))"

    def _listed(self, left_out: Sequence[str]) -> list[str]:
        """The columns of a list but the keys and these."""
        without = {name.casefold() for name in (*self.cdc.keys, *left_out)}
        return [name for name in self.cdc.columns.names if name.casefold() not in without]

    def _selected(self, row: str, keys: str = "") -> str:
        """The keys and the columns of this struct, by name where they are known."""
        keys = keys or self.keys
        if self.cdc.columns.is_exclusion:
            return f"{keys}, {row}.*"
        names = map(quoted, self._listed(self.cdc.partial))
        return ", ".join([keys, *(f"{row}.{name} AS {name}" for name in names)])

    def _events(self) -> str:
        cdc = self.cdc
        columns = [
            self.keys,
            f"{_sequence(cdc)} AS _sequence",
            f"{_condition(cdc.deletes)} AS _deleted",
            f"{self._struct(cdc.partial)} AS _row",
            f"{self._struct(cdc.untracked)} AS _tracked" if cdc.untracked else "",
            f"struct({', '.join(map(quoted, cdc.partial))}) AS _partial" if cdc.partial else "",
            self._fault(),
        ]
        selected = ",\n  ".join(filter(None, columns))
        where = f"\nWHERE NOT {_condition(cdc.truncates)}" if cdc.truncates else ""
        return f"SELECT {selected}\nFROM {_dataset(cdc.source)}{where}"

    def _fault(self) -> str:
        if self.cdc.keeps_first:  # NULL is a value like others
            return "CAST(NULL AS STRING) AS _fault"
        source, keys, sequence = self.cdc.source, self.cdc.keys, self.cdc.sequence
        no_key = f"cdc-null-key: an event of {source} has no {' or no '.join(keys)}"
        no_place = f"cdc-null-sequence: an event of {source} has no {' or no '.join(sequence)}"
        return (
            f"CASE WHEN {_any_null(keys)} THEN {_literal(no_key)}\n"
            f"    WHEN {_any_null(sequence)} THEN {_literal(no_place)} END AS _fault"
        )

    def _changes(self) -> str:
        """What each event says of its key: a delete says nothing else. `_text` gives an order to
        rows that differ and compare as equal, such as those of 0.0 and -0.0. Spark knows the types
        when it plans, so it makes no texts of other rows."""
        parts = ["_row"]
        parts += ["_tracked"] * bool(self.cdc.untracked) + ["_partial"] * bool(self.cdc.partial)
        fields = [f"if(_deleted, NULL, {part}) AS {part}" for part in parts]
        rows = [part for part in parts if part != "_tracked"]
        types = ", ".join(f"typeof({row})" for row in rows)
        text = ", ".join(f"CAST({row} AS STRING)" for row in rows)
        is_needed = f"NOT _deleted AND concat({types}) RLIKE {_literal(_LOOSELY_EQUAL)}"
        fields.append(f"CASE WHEN {is_needed} THEN concat({text}) END AS _text")
        state = f"struct(_deleted, {', '.join(fields)})"
        return f"SELECT {self.keys}, _sequence, {state} AS _state, _fault\nFROM _events"

    def _moments(self) -> str:
        tie, state, compared = "CAST(NULL AS STRING)", f"{self.choice}(_state)", "_state"
        if self.cdc.upsert_wins:
            compared = "CASE WHEN NOT _state._deleted THEN _state END"
            state = f"coalesce(max({compared}), max(_state))"
        if self.cdc.fails_on_tie:
            words = f"cdc-ambiguous: {self.cdc.source} has different events of one key and sequence"
            if self.cdc.keeps_first:
                words = (
                    f"distinct-ambiguous: {self.cdc.source} has different rows of one key and order"
                )
            moment = f"to_json(struct({self.keys}, _sequence))"
            tie = (
                f"CASE WHEN NOT min({compared}) <=> max({compared})\n    THEN "
                f"left(concat({_literal(words + ': ')}, {moment}), {LONGEST_MESSAGE}) END"
            )
        return (
            f"SELECT {self.keys}, _sequence, {state} AS _state, max(_fault) AS _fault,\n"
            f"  {tie} AS _tie\n"
            f"FROM _changes GROUP BY {self.keys}, _sequence"
        )

    @property
    def _steps_to_moments(self) -> list[tuple[str, str]]:
        return [
            ("_events", self._events()),
            ("_changes", self._changes()),
            ("_moments", self._moments()),
        ]

    # --- the newest row ---

    @property
    def _last_mark(self) -> str:
        return f"(SELECT max(_sequence) FROM {quoted(self.marks)})"

    def _is_ended(self, sequence: str) -> str:
        """Whether a truncate deletes events of this place, or the newest snapshot lacks them."""
        if not self.marks:
            return _FALSE
        return f"{sequence} {'<' if self.cdc.is_of_snapshots else '<='} {self._last_mark}"

    def newest(self) -> str:
        steps, state, tie = self._steps_to_moments, "_state, _tie", ""
        if self.cdc.fails_on_tie:
            tie = "\n  WHEN _last._tie IS NOT NULL THEN raise_error(_last._tie)"
        else:  # one aggregate is enough
            steps, state = steps[:-1], "_state"
        newest = (
            f"SELECT {self.keys}, max(_fault) AS _fault,\n"
            f"  {self.choice}(struct(_sequence, {state})) AS _last\n"
            f"FROM {steps[-1][0]} GROUP BY {self.keys}"
        )
        last = (
            f"SELECT {self._selected('_last._state._row')}\n"
            "FROM _newest\n"
            "WHERE CASE WHEN _fault IS NOT NULL THEN raise_error(_fault)\n"
            f"  WHEN {self._is_ended('_last._sequence')} THEN false{tie}\n"
            "  ELSE NOT _last._state._deleted END"
        )
        return _with([*steps, ("_newest", newest)], last)

    def spaced(self, within_s: float) -> str:
        """The first row of each key, and those that come long enough after the row before."""
        time = (
            "_sequence"
            if len(self.cdc.sequence) == 1
            else "_sequence." + quoted(self.cdc.sequence[0])
        )
        numbered = (
            "SELECT *,\n"
            f"  rank() OVER ({self.over_key} ORDER BY _sequence) AS _number\n"
            "FROM _moments"
        )
        before = "RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING"
        spaced = (
            f"SELECT *, max({time}) OVER ({self.over_key} ORDER BY _number {before}) AS _before\n"
            "FROM _numbered"
        )
        # Rows without a time come first, and are duplicates of each other.
        is_first = (
            f"_number = 1 OR coalesce({time} > _before + INTERVAL '{within_s:.6f}' SECOND,"
            f" {time} IS NOT NULL)"
        )
        name = self.cdc.sequence[0]
        words = f"distinct-no-time: {name} of {self.cdc.source} is no date or timestamp, but "
        tie = "WHEN _tie IS NOT NULL THEN raise_error(_tie) " * self.cdc.fails_on_tie
        last = (
            f"SELECT {self._selected('_state._row')}\n"
            "FROM _spaced\n"
            # A text would be read as a time, and compared as a text
            f"WHERE CASE WHEN typeof({time}) NOT RLIKE '^(date|timestamp)'\n"
            f"    THEN raise_error(concat({_literal(words)}, typeof({time})))\n"
            f"  WHEN NOT ({is_first}) THEN false\n"
            f"  {tie}ELSE true END"
        )
        return _with([*self._steps_to_moments, ("_numbered", numbered), ("_spaced", spaced)], last)

    def filled(self) -> str:
        """The newest row, with the newest value that is not NULL in partial columns. Only events
        after the last delete count, and what it ties with."""
        steps = [
            *self._steps_to_moments,
            ("_dated", self._dated()),
            ("_current", self._current()),
            ("_newest", self._filled()),
        ]
        values = ", ".join(
            f"_value_{at}._value AS {quoted(name)}" for at, name in enumerate(self.cdc.partial)
        )
        last = (
            f"SELECT {self._selected('_last._row')}, {values}\n"
            "FROM _newest\n"
            "WHERE CASE WHEN _fault IS NOT NULL THEN raise_error(_fault)\n"
            "  WHEN _tie IS NOT NULL THEN raise_error(_tie)\n"
            "  ELSE _last IS NOT NULL END"
        )
        return _with(steps, last)

    def _dated(self) -> str:
        deleted_at = "max(CASE WHEN _state._deleted THEN _sequence END)"
        return f"SELECT *, {deleted_at} OVER ({self.over_key}) AS _deleted_at\nFROM _moments"

    def _current(self) -> str:
        """Each moment, and whether the row depends on it: those since the last delete, itself
        included, that no truncate ends."""
        ended = self._is_ended("_sequence")
        return (
            "SELECT *, NOT coalesce(_sequence < _deleted_at, false)\n"
            f"  AND NOT coalesce({ended}, false) AS _counts\n"
            "FROM _dated"
        )

    def _filled(self) -> str:
        fields = [f"_state._partial.{quoted(name)}" for name in self.cdc.partial]
        values = "".join(
            f"  max(CASE WHEN _counts AND {field} IS NOT NULL"
            f" THEN struct(_sequence, {field} AS _value) END) AS _value_{at},\n"
            for at, field in enumerate(fields)
        )
        return (
            f"SELECT {self.keys}, max(_fault) AS _fault,\n"
            f"  max(CASE WHEN _counts THEN _tie END) AS _tie,\n"
            f"{values}"
            "  max(CASE WHEN _counts AND NOT _state._deleted\n"
            "    THEN struct(_sequence, _state._row) END) AS _last\n"
            f"FROM _current GROUP BY {self.keys}"
        )

    # --- versions ---

    def versions(self) -> str:
        steps = [
            *self._steps_to_moments,
            *self._steps_to_marks,
            ("_ended", self._ended()),
            ("_states", self._states()),
            ("_steps", self._steps()),
            ("_runs", self._runs()),
            ("_versions", self._versions()),
            ("_closed", self._closed()),
        ]
        if self.cdc.valid_from:
            return self._bitemporal(steps)
        span = "_from AS _valid_from, least(_next, _last._end) AS _valid_to"
        return _with(steps, self._live_versions(self.keys, span, "_closed"))

    def _bitemporal(self, steps: Sequence[tuple[str, str]]) -> str:
        """Versions of each key and valid time, cut where another valid time becomes known."""
        keys, valid = list(map(quoted, self.cdc.own_keys)), quoted(self.cdc.valid_from)
        span = cdc_bitemporal.selected_span(valid)
        last = self._live_versions(", ".join(keys), span, "_known")
        return _with([*steps, *cdc_bitemporal.steps(keys, valid)], last)

    def _live_versions(self, keys: str, span: str, step: str) -> str:
        return (
            f"SELECT {self._selected('_last._row', keys)}, {span}\n"
            f"FROM {step}\n"
            "WHERE CASE WHEN _fault IS NOT NULL THEN raise_error(_fault) ELSE _is_live END"
        )

    @property
    def _steps_to_marks(self) -> list[tuple[str, str]]:
        return [("_numbered", self._numbered()), ("_marks", self._marks())] if self.marks else []

    def _numbered(self) -> str:
        number = "rank() OVER (ORDER BY _sequence) AS _number"
        return f"SELECT _sequence, {number}\nFROM {quoted(self.marks)} GROUP BY _sequence"

    def _marks(self) -> str:
        """Each mark once. `_beside`: the snapshot after it, or the truncate before it. So a moment
        meets one mark at most."""
        way = "FOLLOWING" if self.cdc.is_of_snapshots else "PRECEDING"
        frame = f"RANGE BETWEEN 1 {way} AND 1 {way}"
        beside = f"min(_sequence) OVER (ORDER BY _number {frame}) AS _beside"
        return f"SELECT _sequence, {beside}\nFROM _numbered"

    def _ended(self) -> str:
        """Each moment with `_end`: the first mark that ends it if its key has no other event."""
        if not self.marks:
            return "SELECT *, nullif(_sequence, _sequence) AS _end\nFROM _moments"
        at_mark = "t._sequence = m._sequence"
        until_mark = "m._sequence <= t._sequence AND coalesce(m._sequence > t._beside, true)"
        is_of_snapshots = self.cdc.is_of_snapshots
        return (
            f"SELECT m.*, t.{'_beside' if is_of_snapshots else '_sequence'} AS _end\n"
            f"FROM _moments AS m LEFT JOIN _marks AS t\n"
            f"  ON {at_mark if is_of_snapshots else until_mark}"
        )

    def _states(self) -> str:
        tracked = "_tracked" if self.cdc.untracked else "_row"
        return (
            f"SELECT {self.keys}, _sequence, _end, coalesce(_fault, _tie) AS _fault,\n"
            f"  _state._row, _state.{tracked} AS _tracked,\n"
            "  NOT _state._deleted AND NOT _end <=> _sequence AS _is_live,\n"
            f"  rank() OVER ({self.over_key} ORDER BY _sequence) AS _number\n"
            f"FROM _ended"
        )

    def _steps(self) -> str:
        """Each moment with the one before."""
        before = "RANGE BETWEEN 1 PRECEDING AND 1 PRECEDING"
        return (
            f"SELECT *, max(struct(_is_live, _end, _tracked))\n"
            f"  OVER ({self.over_key} ORDER BY _number {before}) AS _before\n"
            f"FROM _states"
        )

    def _runs(self) -> str:
        """Moments that go on from the one before have its number of the version."""
        end = "_sequence" if self.cdc.is_of_snapshots else "_end"
        goes_on = f"_before._end <=> {end} AND _before._tracked <=> _tracked"
        is_run = f"coalesce(_is_live AND _before._is_live AND {goes_on}, false)"
        return (
            f"SELECT *, count_if(NOT {is_run})\n"
            f"  OVER ({self.over_key} ORDER BY _number) AS _version\n"
            f"FROM _steps"
        )

    def _versions(self) -> str:
        return (
            f"SELECT {self.keys}, _version, min(_sequence) AS _from, max(_fault) AS _fault,\n"
            "  bool_and(_is_live) AS _is_live, max(struct(_number, _row, _end)) AS _last\n"
            f"FROM _runs GROUP BY {self.keys}, _version"
        )

    def _closed(self) -> str:
        """Each version with where the next one begins."""
        after = "RANGE BETWEEN 1 FOLLOWING AND 1 FOLLOWING"
        return (
            f"SELECT *, min(_from) OVER ({self.over_key} ORDER BY _version {after}) AS _next\n"
            f"FROM _versions"
        )
