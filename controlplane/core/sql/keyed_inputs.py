"""Which inputs of a query may be read by key: by proof that rows of a key can be picked before the
query, not after it.

The proof goes down from the output. At each relation a key is a tuple of parts, and a part is a set
of expressions over the relation's columns that are equal in each row that matters; picking the rows
in which they have some value (or are NULL) has to be the same as picking such rows from what the
relation is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from controlplane.core.sql import time_windows
from controlplane.core.sql.column_origins import (
    MERGED,
    Inside,
    KnownNames,
    column,
    replaced,
    visible_sources,
)
from controlplane.core.sql.equal import (
    Key,
    Pairs,
    Part,
    closed,
    coalesced,
    equalities,
    exchanged,
    holds,
    is_coalesce,
    same_name,
)
from controlplane.core.sql.function_calls import Calls, Unproven, is_aggregated, windows
from controlplane.core.sql.relations import Mention, Other, QueryScope, Relation, Union

MOST_STEPS: Final = 5_000  # a common table expression that is used twice is looked at twice
_SCOPE_PARTS: Final = frozenset(
    {
        *(
            "expressions",
            "from_",
            "joins",
            "laterals",
            "where",
            "group",
            "having",
            "windows",
            "qualify",
            "order",
        ),
        *("distinct", "with_", "hint"),
    }
)


class _TooLargeError(Exception):
    """There is no end to it: not a reason to look at another side."""


class _MixedError(Exception):
    """An input is read in two ways, so it has to be read whole."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class InputKeys:
    """`by`: expressions over an input's columns, for each part of the key; `unsplit`: inputs that
    are read whole."""

    by: Mapping[str, tuple[exp.Expr, ...]]
    unsplit: frozenset[str]

    def __or__(self, other: InputKeys) -> InputKeys:
        for name in self.by.keys() & other.by.keys():
            if self.by[name] != other.by[name]:
                raise _MixedError(name)
        both = InputKeys({**self.by, **other.by}, self.unsplit | other.unsplit)
        for name in both.by.keys() & both.unsplit:
            raise _MixedError(name)
        return both


def prove(query: Relation, calls: Calls, columns: KnownNames, names: Iterable[str]) -> InputKeys:
    """Inputs that may be read by the values of these output columns. Raises Unproven if there is
    none."""
    key = tuple(frozenset({column(columns.fold(name))}) for name in names)
    unsplit: frozenset[str] = frozenset()
    while True:
        try:
            return _Proof(calls, columns, unsplit).push(query, key)
        except _MixedError as mixed:
            unsplit |= {mixed.name}
        except _TooLargeError:
            raise Unproven("the query is too large to follow", query.offset) from None


def _unsplit(relations: Iterable[Relation]) -> InputKeys:
    return InputKeys(
        {}, frozenset(ref.name.lower() for relation in relations for ref in relation.reads)
    )


@dataclass(slots=True)
class _Proof:
    calls: Calls
    columns: KnownNames
    unsplit: frozenset[str]
    steps: int = field(default=0)

    def push(self, relation: Relation, key: Key) -> InputKeys:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise _TooLargeError
        match relation:
            case Mention():
                return self._mention(relation, key)
            case Union():
                return self._union(relation, key)
            case QueryScope():
                return _ScopeProof(self, relation, Inside(relation, self.columns)).keys_of_inputs(
                    key
                )
            case Other(what=what, offset=offset):
                raise Unproven(what, offset)

    def _mention(self, mention: Mention, key: Key) -> InputKeys:
        name = mention.ref.name.lower()
        if name in self.unsplit:
            raise Unproven(f"{mention.ref.name} is read in more than one way", mention.offset)
        columns = self.columns.outputs(mention)
        parts = tuple(min(part, key=_plainness) for part in key)
        for part in parts:
            used = [c.name for c in part.find_all(exp.Column)]
            if not used or (columns is not None and not set(used) <= set(columns)):
                raise Unproven(f"{mention.ref.name} has no column for the key", mention.offset)
        return InputKeys({name: parts}, frozenset())

    def _union(self, union: Union, key: Key) -> InputKeys:
        left, right = union.sides
        ours, theirs = self.columns.outputs(left), self.columns.outputs(right)
        if ours is None or theirs is None or len(ours) != len(theirs):
            raise Unproven("UNION ALL of columns that cannot be told", union.offset)
        places = {name: at for at, name in enumerate(ours) if ours.count(name) == 1}

        def there(left_column: exp.Column) -> exp.Expr | None:
            at = places.get(left_column.name)
            return (
                column(theirs[at])
                if at is not None and theirs[at] and theirs.count(theirs[at]) == 1
                else None
            )

        return self.push(left, key) | self.push(right, _changed(key, there, union.offset))


def _plainness(expression: exp.Expr) -> tuple[bool, str]:
    return not isinstance(expression, exp.Column), repr(expression)


def _changed(key: Key, change: Callable[[exp.Column], exp.Expr | None], offset: int) -> Key:
    changed = tuple(
        frozenset(e for m in part if (e := replaced(m, change)) is not None) for part in key
    )
    return _complete(changed, "the key is no column there", offset)


def _complete(key: Key, what: str, offset: int) -> Key:
    if not all(key):
        raise Unproven(what, offset)
    return key


@dataclass(frozen=True, slots=True)
class _ScopeProof:
    proof: _Proof
    scope: QueryScope
    inside: Inside

    def keys_of_inputs(self, key: Key) -> InputKeys:
        select = self.scope.select
        for part, value in select.args.items():
            if value and part not in _SCOPE_PARTS:
                raise Unproven(part.strip("_").upper(), self.scope.offset)
        if not self.scope.sources:
            raise Unproven("a SELECT without FROM", self.scope.offset)
        inner = tuple(
            frozenset(e for m in part if (e := self._output(m)) is not None) for part in key
        )
        inner = _complete(inner, self._obstacle(key), self.scope.offset)
        self._check_groups()
        inner = self._under_windows(inner)
        where = select.args.get("where")
        every = list(range(len(self.scope.sources)))
        pairs = self._pairs(where.this, list(visible_sources(self.scope))) if where else ()
        return self._join(every[-1], closed(inner, pairs)) | _unsplit(self.scope.inner)

    def _obstacle(self, key: Key) -> str:
        names = {member.name for part in key for member in part}
        fold = self.inside.columns.fold
        selected = self.scope.select.expressions
        keys = (column for column in selected if fold(column.alias_or_name) in names)
        windows = filter(None, map(time_windows.obstacle, keys))
        return next(windows, "the key is no value of the rows that are read")

    def _output(self, member: exp.Expr) -> exp.Expr | None:
        return replaced(member, lambda c: self.inside.output(c.name))

    # --- groups and windows ---

    def _check_groups(self) -> None:
        """Spark accepts in the output only expressions over the grouping expressions, so the key is
        one."""
        aggregates = self.proof.calls.aggregates(self.scope)
        if not is_aggregated(self.scope, aggregates):
            return
        group = self.scope.select.args.get("group")
        if group is None:
            raise Unproven(
                "an aggregate without GROUP BY",
                aggregates[0].offset if aggregates else self.scope.offset,
            )
        extra = [
            part
            for part, value in group.args.items()
            if value and part not in ("expressions", "all")
        ]
        sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
        if (
            extra
            or any(isinstance(e, sets) for e in group.expressions)
            or not (group.expressions or group.args.get("all"))
        ):
            raise Unproven("GROUP BY with totals", self.scope.offset)

    def _under_windows(self, key: Key) -> Key:
        """Restrict the key to the expressions that every window is partitioned by."""
        for window in windows(self.scope):
            by = self._partition(window)
            offset = min(
                (n.meta["start"] for n in window.walk() if "start" in n.meta),
                default=self.scope.offset,
            )
            if not by:
                raise Unproven("window without PARTITION BY", offset)
            key = _complete(
                tuple(part & by for part in key), "window whose PARTITION BY is not the key", offset
            )
        return key

    def _partition(self, window: exp.Window) -> frozenset[exp.Expr]:
        by = window.args.get("partition_by") or []
        if named := window.args.get("alias"):
            defined = [
                w for w in self.scope.select.args.get("windows") or () if same_name(w.this, named)
            ]
            by = [e for w in defined for e in w.args.get("partition_by") or ()]
        sources, aliases = list(visible_sources(self.scope)), self.inside.aliases()
        return frozenset(v for e in by if (v := self.inside.value(e, sources, aliases)) is not None)

    # --- joins, from the last to the first ---

    def _join(self, at: int, key: Key) -> InputKeys:
        source = self.scope.sources[at]
        if at == 0:
            return self._source(0, key)
        join = source.join
        assert join is not None
        side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
        if join.args.get("method"):
            raise Unproven(f"{join.args['method']} JOIN", source.relation.offset)
        pairs = self._equalities(at, join)
        if kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
            return self._preserving_left(at, self._unmerged(at, key, left=True, right=False), pairs)
        match side, kind:
            case "", "" | "INNER" | "CROSS":
                return self._inner(
                    at, closed(self._unmerged(at, key, left=True, right=True), pairs)
                )
            case "LEFT", "" | "OUTER":
                return self._preserving_left(
                    at, self._unmerged(at, key, left=True, right=False), pairs
                )
            case "RIGHT", "" | "OUTER":
                return self._preserving_right(
                    at, self._unmerged(at, key, left=False, right=True), pairs
                )
            case "FULL", "" | "OUTER":
                return self._full(at, key, pairs)
            case _:
                raise Unproven(f"{side or kind} JOIN", source.relation.offset)

    def _inner(self, at: int, key: Key) -> InputKeys:
        """Either side may be read by the key, or both; at least one has to."""
        sides: tuple[Callable[[], InputKeys], ...] = (
            lambda: self._join(
                at - 1, self._left(at, key, "the key comes from both sides of a join")
            ),
            lambda: self._source(
                at, self._right(at, key, "the key comes from both sides of a join")
            ),
        )
        proofs, reasons = list[InputKeys](), list[Unproven]()
        for side, parts in zip(sides, self._parts(at), strict=True):
            try:
                proofs.append(side())
            except Unproven as reason:
                reasons.append(reason)
                proofs.append(_unsplit(parts))
        if len(reasons) == len(proofs):
            raise reasons[0]
        return proofs[0] | proofs[1]

    def _preserving_left(self, at: int, key: Key, pairs: Pairs) -> InputKeys:
        left = self._left(
            at, coalesced(key, pairs), "the key comes from the side of a join that may be missing"
        )
        preserved = self._join(at - 1, left)
        return preserved | self._other_side(
            lambda: self._source(at, self._right(at, closed(left, pairs), "")), self._parts(at)[1]
        )

    def _preserving_right(self, at: int, key: Key, pairs: Pairs) -> InputKeys:
        right = self._right(
            at, coalesced(key, pairs), "the key comes from the side of a join that may be missing"
        )
        preserved = self._source(at, right)
        return preserved | self._other_side(
            lambda: self._join(at - 1, self._left(at, closed(right, pairs), "")), self._parts(at)[0]
        )

    def _other_side(self, side: Callable[[], InputKeys], parts: tuple[Relation, ...]) -> InputKeys:
        """The side that adds to rows: by the key where the join says that its rows have it, else
        whole."""
        try:
            return side()
        except Unproven:
            return _unsplit(parts)

    def _full(self, at: int, key: Key, pairs: Pairs) -> InputKeys:
        """Both sides add rows of their own, so the key has to be made of both, and both are read by
        it."""
        offset = self.scope.sources[at].relation.offset
        both = [self._made_of_both(at, part, pairs) for part in key]
        if any(pair is None for pair in both):
            raise Unproven("FULL JOIN whose key is not made of both sides", offset)
        left, right = (tuple(frozenset({pair[side]}) for pair in both if pair) for side in (0, 1))
        return self._join(at - 1, left) | self._source(at, self._right(at, right, ""))

    def _made_of_both(self, at: int, part: Part, pairs: Pairs) -> tuple[exp.Expr, exp.Expr] | None:
        for member in sorted(part, key=repr):
            if (
                isinstance(member, exp.Column)
                and member.name in self.inside.using(at)
                and member.table == MERGED
            ):
                left = self._left_column(at, member.name)
                return (left, column(member.name, str(at))) if left is not None else None
            for first, second in pairs:
                if is_coalesce(member, first, second) or is_coalesce(member, second, first):
                    return first, second
        return None

    # --- sides ---

    def _source(self, at: int, key: Key) -> InputKeys:
        """The key over the numbered source, as the source's relation calls its columns."""
        source = self.scope.sources[at]
        outer = tuple(map(self.inside.columns.fold, source.columns))
        inner = self.inside.columns.outputs(source.relation)

        def own(outer_column: exp.Column) -> exp.Expr | None:
            if outer_column.table != str(at):
                return None
            if not outer:
                return column(outer_column.name)
            place = outer.index(outer_column.name) if outer.count(outer_column.name) == 1 else None
            name = (
                inner[place]
                if place is not None and inner is not None and len(inner) == len(outer)
                else ""
            )
            return column(name) if name else None

        return self.proof.push(source.relation, _changed(key, own, source.relation.offset))

    def _parts(self, at: int) -> tuple[tuple[Relation, ...], tuple[Relation, ...]]:
        relations = [source.relation for source in self.scope.sources]
        return tuple(relations[:at]), (relations[at],)

    def _left(self, at: int, key: Key, what: str) -> Key:
        return self._of(key, {MERGED, *map(str, range(at))}, what, at)

    def _right(self, at: int, key: Key, what: str) -> Key:
        return self._of(key, {str(at)}, what, at)

    def _of(self, key: Key, tables: set[str], what: str, at: int) -> Key:
        own = tuple(
            frozenset(m for m in part if {c.table for c in m.find_all(exp.Column)} <= tables)
            for part in key
        )
        return _complete(own, what, self.scope.sources[at].relation.offset)

    # --- equal expressions ---

    def _equalities(self, at: int, join: exp.Join) -> Pairs:
        """Pairs of equal expressions, left and right, from ON and USING."""
        on = join.args.get("on")
        pairs = (
            self._pairs(on, [*(i for i in visible_sources(self.scope) if i < at), at]) if on else ()
        )
        ordered = (pair if self._is_right(pair[1], at) else (pair[1], pair[0]) for pair in pairs)
        crossing = tuple(
            p for p in ordered if self._is_right(p[1], at) and not self._touches(p[0], at)
        )
        merged = (
            (self._left_column(at, name), column(name, str(at))) for name in self.inside.using(at)
        )
        return crossing + tuple((left, right) for left, right in merged if left is not None)

    def _is_right(self, expression: exp.Expr, at: int) -> bool:
        return {c.table for c in expression.find_all(exp.Column)} == {str(at)}

    def _touches(self, expression: exp.Expr, at: int) -> bool:
        return any(c.table == str(at) for c in expression.find_all(exp.Column))

    def _pairs(self, condition: exp.Expr, sources: list[int]) -> Pairs:
        values = (
            (self.inside.value(e.left, sources), self.inside.value(e.right, sources))
            for e in equalities(condition)
        )
        return tuple(
            (left, right) for left, right in values if left is not None and right is not None
        )

    def _left_column(self, at: int, name: str) -> exp.Expr | None:
        """What a column of USING is on the left: perhaps merged already."""
        left = [i for i in visible_sources(self.scope) if i < at]
        if any(name in self.inside.using(i) for i in left if i):
            return column(name, MERGED)
        having = [
            i
            for i in left
            if name in (self.inside.columns.of_source(self.scope.sources[i]) or (name,))
        ]
        return column(name, str(having[0])) if len(having) == 1 else None

    def _unmerged(self, at: int, key: Key, *, left: bool, right: bool) -> Key:
        """With a column that USING merged from two of this join as the column of the side that has
        it."""
        out = []
        for part in key:
            members = set(part)
            for name in self.inside.using(at):
                ours = [self._left_column(at, name)] * left + [column(name, str(at))] * right
                for new in [new for new in ours if new is not None]:
                    members |= {
                        m
                        for old in part
                        if (m := exchanged(old, column(name, MERGED), new)) is not None
                    }
                if not left:  # what stays merged would be read as the left one's
                    members = {m for m in members if not holds(m, column(name, MERGED))}
            out.append(frozenset(members))
        return tuple(out)
