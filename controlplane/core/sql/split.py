"""A query with an aggregate that may be merged, as two: one over each part of an input, and one
over what these gave.

Both are edits of the user's text, so that Spark's positions lead back to it. The first selects the
values of the groups and partial aggregates; the second is the whole query, with the scope that
aggregates reading those instead. The proof about the query (decomposable) does not depend on
whether it can be taken apart here: where the text leaves a doubt, it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from sqlglot import exp

from controlplane.core.sql import time_windows
from controlplane.core.sql.clauses import Clauses, clauses_of
from controlplane.core.sql.decomposable import decompose
from controlplane.core.sql.edits import Edit
from controlplane.core.sql.function_calls import Calls, FunctionCall, Unproven
from controlplane.core.sql.partial_aggregates import Partial, partial_of
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.relations import Mention, QueryScope, is_query, relation_of
from controlplane.core.sql.scan import Lexeme
from dataplane.contract.results import LABEL

PARTS: Final = "_headgate_parts"  # the table that the second query reads
_FOLDED: Final = ("having", "qualify", "windows", "order", "sort", "cluster", "distribute")
# Clauses that may name what the scope selects
_ALIASES: Final = ("order", "sort", "having", "qualify")


@dataclass(frozen=True, slots=True)
class Split:
    """Edits of the text. `labelled`: the first query over many parts at once, distinguished by a
    column; None where that cannot be carried through."""

    partial: tuple[Edit, ...]
    labelled: tuple[Edit, ...] | None
    _around: tuple[Edit, ...]
    _calls: tuple[tuple[int, int, Partial], ...]  # [start, end) of each aggregate
    _groups: int = 0

    @property
    def depends_on_types(self) -> bool:
        """Whether parts come together exactly is not known without the types of their columns."""
        return any(partial.has_sum for *_, partial in self._calls)

    def comes_together(self, types: Mapping[str, str]) -> bool:
        try:
            self.second_query(types)
        except Unproven:
            return False
        return True

    def between(self, types: Mapping[str, str]) -> tuple[str, str]:
        """A query over some parts, of which as much can be made as of these: their groups merged.
        And the same over several lots of parts at once, distinguished by a column. Raises Unproven
        where it matters which parts meet first."""
        groups = [f"_g{i}" for i in range(self._groups)]
        partials = {partial.columns: (start, partial) for start, _, partial in self._calls}
        merged = [
            f"{what} AS {name}"
            for at, of in partials.values()
            for name, what in of.combined(types, at)
        ]
        label = f"{PARTS}.{LABEL}"
        alone, labelled = (
            ", ".join([*groups, *merged]),
            ", ".join([*groups, *merged, f"{label} AS {LABEL}"]),
        )
        grouping = f" GROUP BY {', '.join(groups)}" if groups else " HAVING count(*) > 0"
        return (
            f"SELECT {alone} FROM {PARTS}{grouping}",
            f"SELECT {labelled} FROM {PARTS} GROUP BY {', '.join([*groups, label])}",
        )

    def second_query(self, types: Mapping[str, str]) -> tuple[Edit, ...]:
        """The second query. `types` are those of the columns that the first one gave. Raises
        Unproven where parts of such a type come together to something else than the plain query
        gives."""
        return self._second(lambda partial, start: partial.merged(types, start))

    @property
    def outline(self) -> tuple[Edit, ...]:
        """The second query without types: its groups are right, its aggregates stand in for others.
        A proof by key looks at the groups alone."""
        return self._second(lambda partial, _: f"max({partial.columns[0][0]})")

    def _second(self, merged: Callable[[Partial, int], str]) -> tuple[Edit, ...]:
        calls = (Edit(start, end, merged(partial, start)) for start, end, partial in self._calls)
        return tuple(sorted([*self._around, *calls]))

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of parts."""
        groups = (f"_g{i}" for i in range(self._groups))
        partials = (name for *_, partial in self._calls for name, _ in partial.columns)
        return tuple(dict.fromkeys(chain(groups, partials)))


def split(
    text: str, lexemes: tuple[Lexeme, ...], tree: exp.Expr, refs: tuple[TableRef, ...], name: str
) -> Split:
    """By parts of the input `name`. Raises Unproven with the obstacle."""
    calls = Calls(lexemes, tree)
    relation = relation_of(tree, refs)
    scope = decompose(relation, calls, (), name).scope
    return _Splitter(text, lexemes, calls, scope, clauses_of(lexemes, scope), name.lower()).split()


@dataclass(slots=True)
class _Splitter:
    text: str
    lexemes: tuple[Lexeme, ...]
    calls: Calls
    scope: QueryScope
    at: Clauses
    name: str
    # text, column, tokens
    groups: list[tuple[str, exp.Column | None, tuple[str, ...]]] = field(default_factory=list)
    partials: dict[str, Partial] = field(default_factory=dict)  # by their text

    def split(self) -> Split:
        self._check()
        self.groups = list(self._grouped())
        aggregates = [self._aggregate(call) for call in self.calls.aggregates(self.scope)]
        around = [
            *self._selected(aggregates),
            *self._rest(aggregates),
            *self._source(),
            *self._regrouped(),
        ]
        head, columns, tail = self._with(), ", ".join(self._columns()), self._grouping("")
        return Split(
            tuple(sorted([*head, *self._cut(f"SELECT {columns} ", tail)])),
            self._labelled(head),
            tuple(sorted(around)),
            tuple(aggregates),
            len(self.groups),
        )

    def _check(self) -> None:
        group = self.scope.select.args.get("group")
        if isinstance(group, exp.Group) and (
            extra := [p for p, v in group.args.items() if v and p not in ("expressions", "all")]
        ):
            raise Unproven(f"GROUP BY {extra[0].replace('_', ' ').upper()}", self.scope.offset)
        if self.scope.select.args.get("distinct") or not (
            group or self.calls.aggregates(self.scope)
        ):
            raise Unproven("DISTINCT", self.scope.offset)
        for node in self._beside():
            if any(is_query(n) for n in node.walk()):
                raise Unproven("a subquery beside the aggregates", self.scope.offset)

    def _beside(self) -> Iterator[exp.Expr]:
        """All that is computed from groups."""
        select = self.scope.select
        yield from select.expressions
        for part in _FOLDED:
            clause = select.args.get(part)
            yield from clause if isinstance(clause, list) else [clause] if clause else []

    # --- groups ---

    def _grouped(self) -> Iterator[tuple[str, exp.Column | None, tuple[str, ...]]]:
        group = self.scope.select.args.get("group")
        if self._is_by_all:
            yield from self._by_all()
            return
        nodes = group.expressions if isinstance(group, exp.Group) else []
        items = self.at.group_items
        if len(nodes) != len(items):
            raise Unproven("GROUP BY in a form that is not followed", self.scope.offset)
        for node, (start, end) in zip(nodes, items, strict=True):
            if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                raise Unproven(f"GROUP BY {node.key.upper()}", self.scope.offset)
            if isinstance(node, exp.Literal):
                node, start, end = self._ordinal(node)
            if any(alias == node.name.lower() for alias in self._computed()) and isinstance(
                node, exp.Column
            ):
                raise Unproven(
                    f"GROUP BY {node.name}, which is also the name of something computed",
                    self.scope.offset,
                )
            column = node if isinstance(node, exp.Column) else None
            text, tokens = self._slice(start, end), self._tokens(start, end)
            if time_windows.is_window(node):  # known by its start, which is what queries select
                text, tokens = f"{text}.start", (*tokens, ".", "start")
            yield text, column, tokens

    @property
    def _is_by_all(self) -> bool:
        group = self.scope.select.args.get("group")
        return isinstance(group, exp.Group) and bool(group.args.get("all"))

    def _by_all(self) -> Iterator[tuple[str, exp.Column | None, tuple[str, ...]]]:
        """The selected expressions without aggregates. ALL is a column where there is one of that
        name: a query is then right as it is read here only if it selects another column beside
        aggregates, and would be wrong as read there."""
        words = chain.from_iterable(self.lexemes[start:end] for start, end in self.at.items)
        plain = [
            at
            for at, item in enumerate(self.scope.select.expressions)
            if not self._has_aggregate(at)
        ]
        selected = [self.scope.select.expressions[at].unalias() for at in plain]
        is_named = any(x.token.text.strip("`").upper() == "ALL" for x in words)
        if is_named or not any(e.find(exp.Column) for e in selected):
            raise Unproven("GROUP BY ALL, which may be a column", self.scope.offset)
        if len(self.at.group_items) != 1 or any(e.is_star or e.find(exp.Window) for e in selected):
            raise Unproven("GROUP BY ALL in a form that is not followed", self.scope.offset)
        for at, node in zip(plain, selected, strict=True):
            start, end = self.at.items[at]
            stop = self._before_alias(at, end)
            yield (
                self._slice(start, stop),
                node if isinstance(node, exp.Column) else None,
                self._tokens(start, stop),
            )

    def _has_aggregate(self, number: int) -> bool:
        start, end = self._span(*self.at.items[number])
        return any(start <= call.offset < end for call in self.calls.aggregates(self.scope))

    def _ordinal(self, node: exp.Literal) -> tuple[exp.Expr, int, int]:
        number = int(node.name) if node.is_int else 0
        if not 0 < number <= len(self.at.items):
            raise Unproven("GROUP BY a literal", self.scope.offset)
        start, end = self.at.items[number - 1]
        return (
            self.scope.select.expressions[number - 1].unalias(),
            start,
            self._before_alias(number - 1, end),
        )

    def _computed(self) -> list[str]:
        """Names that the scope gives to more than columns of the same name."""
        aliases = (
            (e.alias.lower(), e.this)
            for e in self.scope.select.expressions
            if isinstance(e, exp.Alias)
        )
        return [
            alias
            for alias, of in aliases
            if not isinstance(of, exp.Column) or of.name.lower() != alias
        ]

    def _before_alias(self, number: int, end: int) -> int:
        """Where the expression of a selected item ends, as an index of lexemes."""
        item = self.scope.select.expressions[number]
        if not isinstance(item, exp.Alias):
            return end
        return end - 2 if self.lexemes[end - 2].folded == "AS" else end - 1

    # --- aggregates ---

    def _aggregate(self, call: FunctionCall) -> tuple[int, int, Partial]:
        at = next(i for i, x in enumerate(self.lexemes) if x.token.start == call.offset)
        closing = self._closing(at + 1)
        end = closing
        if end + 1 < len(self.lexemes) and self.lexemes[end + 1].upper == "FILTER":
            end = self._closing(end + 2)
        argument = self.text[self.lexemes[at + 1].token.end : self.lexemes[closing].token.start]
        condition = self.text[self.lexemes[closing].token.end : self.lexemes[end].token.end]
        start, stop = call.offset, self.lexemes[end].token.end
        partial = partial_of(call.name, argument, condition, len(self.partials), start)
        return start, stop, self.partials.setdefault(self.text[start:stop], partial)

    def _closing(self, opening: int) -> int:
        if not self.lexemes[opening].is_symbol("("):
            raise Unproven(
                "a call in a form that is not followed", self.lexemes[opening].token.start
            )
        depth = self.lexemes[opening].depth
        return next(
            i for i in range(opening + 1, len(self.lexemes)) if self.lexemes[i].depth == depth
        )

    # --- the second query ---

    def _selected(self, aggregates: Sequence[tuple[int, int, Partial]]) -> Iterator[Edit]:
        for number, (item, (start, end)) in enumerate(
            zip(self.scope.select.expressions, self.at.items, strict=True)
        ):
            stop = self._before_alias(number, end)
            if (group := self._whole_group(start, stop)) is not None:
                name = "" if stop != end else f" AS {self._column_name(item)}"
                yield Edit(*self._span(start, stop), f"_g{group}{name}")
                continue
            if stop == end:
                raise Unproven("an expression without a name", self.lexemes[start].token.start)
            yield from self._refer(item, aggregates, ())

    def _column_name(self, item: exp.Expr) -> str:
        if not isinstance(item, exp.Column):
            raise Unproven("an expression without a name", self.scope.offset)
        place = item.parts[-1].meta["start"]
        return next(x.token.text for x in self.lexemes if x.token.start == place)

    def _rest(self, aggregates: Sequence[tuple[int, int, Partial]]) -> Iterator[Edit]:
        names = [e.alias_or_name.lower() for e in self.scope.select.expressions]
        for part in _FOLDED:
            clause = self.scope.select.args.get(part)
            for node in clause if isinstance(clause, list) else [clause] if clause else []:
                yield from self._refer(node, aggregates, names if part in _ALIASES else ())

    def _refer(
        self, node: exp.Expr, aggregates: Sequence[tuple[int, int, Partial]], names: Iterable[str]
    ) -> Iterator[Edit]:
        """Columns beside aggregates as columns of the parts. Raises Unproven for one that is none
        of the groups."""
        for column in node.find_all(exp.Column):
            start = column.parts[0].meta.get("start")
            if start is None or isinstance(column.this, exp.Star):
                raise Unproven("a column in a form that is not followed", self.scope.offset)
            end = column.parts[-1].meta["end"] + 1
            if any(a <= start < b for a, b, _ in aggregates):
                continue
            if len(column.parts) == 1 and column.name.lower() in names:
                continue
            group = next(
                (i for i, (_, g, _t) in enumerate(self.groups) if g and _is_same(column, g)), None
            )
            if group is None:
                raise Unproven(f"{column.name} is none of the groups", start)
            yield Edit(start, end, f"_g{group}")

    def _whole_group(self, start: int, stop: int) -> int | None:
        tokens = self._tokens(start, stop)
        return next((i for i, (_, _c, of) in enumerate(self.groups) if of == tokens), None)

    def _source(self) -> list[Edit]:
        start, end = self._span(self.at.source, self.at.source_end)
        return [Edit(start, end, f"FROM {PARTS}")]

    def _regrouped(self) -> list[Edit]:
        if self._is_by_all:
            names = ", ".join(f"_g{i}" for i in range(len(self.groups)))
            return [Edit(*self._span(*self.at.group_items[0]), names)]
        return [Edit(*self._span(a, b), f"_g{i}") for i, (a, b) in enumerate(self.at.group_items)]

    # --- the first query ---

    def _columns(self) -> Iterator[str]:
        yield from (f"{text} AS _g{i}" for i, (text, *_) in enumerate(self.groups))
        yield from (
            f"{what} AS {name}"
            for partial in self.partials.values()
            for name, what in partial.columns
        )

    def _grouping(self, label: str) -> str:
        texts = [str(i + 1) for i in range(len(self.groups))]
        if label:
            texts.append(label)
        return f" GROUP BY {', '.join(texts)}" if texts else " HAVING count(*) > 0"

    def _cut(self, opening: str, tail: str) -> list[Edit]:
        """All that is before and after FROM ... WHERE of the scope goes."""
        start, end = self._span(self.at.source, self.at.source_end)
        return [Edit(self._head_end(), start, opening), Edit(end, len(self.text), tail)]

    def _head_end(self) -> int:
        commons = self.at.commons
        return self._span(*commons[-1])[1] if commons else 0

    def _with(self) -> list[Edit]:
        """Common table expressions that the scope may read stay."""
        edits, at = [], 0
        for number, common in enumerate(self.at.commons):
            start, end = self._span(*common)
            edits.append(Edit(at, start, ", " if number else "WITH "))
            at = end
        return edits

    def _labelled(self, head: list[Edit]) -> tuple[Edit, ...] | None:
        try:
            through = list(self._label(self.scope, 0))
        except Unproven:
            return None
        label = f"{through[0]}.{LABEL}"
        columns = ", ".join([*self._columns(), f"{label} AS {LABEL}"])
        edits = [e for e in through[1:] if isinstance(e, Edit)]
        return tuple(
            sorted([*head, *edits, *self._cut(f"SELECT {columns} ", self._grouping(label))])
        )

    def _label(self, scope: QueryScope, depth: int) -> Iterator[str | Edit]:
        """The scope's name for the relation that reads the input; then the edits that carry the
        label up to it."""
        source = next(
            s for s in scope.sources if any(r.name.lower() == self.name for r in s.relation.reads)
        )
        name = f"`{source.name.replace('`', '``')}`"
        if depth == 0:
            yield name
        match source.relation:
            case Mention():
                inner = None
            case QueryScope() as inner:
                yield from self._label(inner, depth + 1)
            case _:
                raise Unproven("a label cannot be carried through", source.relation.offset)
        if source.columns:
            raise Unproven("a list of columns", source.relation.offset)
        if depth:
            at = clauses_of(self.lexemes, scope)
            end = self.lexemes[at.items[-1][1] - 1].token.end
            if any(e.is_star for e in scope.select.expressions):
                raise Unproven("a star", scope.offset)
            yield Edit(end, end, f", {name}.{LABEL} AS {LABEL}")

    # --- text ---

    def _span(self, start: int, end: int) -> tuple[int, int]:
        """Characters of lexemes [start, end)."""
        return self.lexemes[start].token.start, self.lexemes[end - 1].token.end

    def _slice(self, start: int, end: int) -> str:
        first, last = self._span(start, end)
        return self.text[first:last]

    def _tokens(self, start: int, end: int) -> tuple[str, ...]:
        return tuple(
            x.folded.lower() if x.token.kind == "word" else x.folded
            for x in self.lexemes[start:end]
        )


def _is_same(a: exp.Column, b: exp.Column) -> bool:
    """One column: by its last name, and by what qualifies it where both are qualified."""
    first, second = ([part.name.lower() for part in reversed(column.parts)] for column in (a, b))
    return all(x == y for x, y in zip(first, second, strict=False))
