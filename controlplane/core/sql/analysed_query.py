"""One query: its identity, its inputs, how it may be split, and how its text may be edited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from weakref import WeakValueDictionary

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError

from controlplane.core.sql import (
    clock,
    column_lineage,
    edits,
    mode_proof,
    named_columns,
    references,
    resolution,
    time_windows,
)
from controlplane.core.sql.column_origins import KnownNames
from controlplane.core.sql.edits import Edit
from controlplane.core.sql.function_calls import Unproven
from controlplane.core.sql.input_modes import Analysis, OutputKeyPart, Verdict
from controlplane.core.sql.lexer import blank
from controlplane.core.sql.mode_proof import Mode, Shape
from controlplane.core.sql.output_columns import OutputColumns, mentioned_columns
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.refusals import refuse
from controlplane.core.sql.resolution import ColumnUse
from controlplane.core.sql.scan import Lexeme, scan
from controlplane.core.sql.split import Split, split
from controlplane.core.sql.sql_problem import SqlProblem, line_column
from controlplane.core.sql.syntax import check_brackets, syntax_problem
from controlplane.core.sql.time_distance import UNKNOWN, TimeColumns, TimeDistance, time_distance
from controlplane.core.sql.variant_paths import has_path, without_paths
from controlplane.core.sql.volatile import VolatileCall, volatile
from dataplane.contract.encoding import digest
from dataplane.contract.transform_lineage import ColumnLineage

_ARITY: Final = re.compile(
    r"Required keyword: '\w+' missing for <class '[\w.]*?(\w+)'>|The number of provided arguments"
)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class AnalysedQuery:
    """A query that passed. `parsed` is False where only Spark can read it: then nothing about it is
    proven."""

    text: str
    digest: bytes
    references: tuple[TableRef, ...]
    parameters: frozenset[str]
    volatile: tuple[VolatileCall, ...]
    parsed: bool
    _lexemes: tuple[Lexeme, ...]
    _shape: Shape
    _verdicts: Mapping[str, Verdict]

    def named_columns(self, names: Iterable[str]) -> tuple[str, ...] | None:
        """Which of an input's columns the query names; None: all of them, or unknown."""
        return (
            named_columns.named_columns(self._lexemes, self.references, names)
            if self.parsed
            else None
        )

    def verdicts(
        self,
        partition_by: Iterable[OutputKeyPart] = (),
        columns: Mapping[str, tuple[str, ...]] | None = None,
        *,
        case_sensitive: bool = False,
    ) -> Mapping[str, Verdict]:
        """The proven mode of each input, by its name in the text.

        `columns` are those of inputs whose schemas are known: without them, the origin of a column
        may be unknown.
        """
        wished = tuple(partition_by)
        if not wished:
            return self._verdicts
        return self._analysis().verdicts(
            wished, _known_names(columns, case_sensitive=case_sensitive)
        )

    def outputs(
        self, columns: Mapping[str, tuple[str, ...]] | None = None, *, case_sensitive: bool = False
    ) -> tuple[str, ...] | None:
        """The names of the output's columns, empty where Spark makes one up; None where the text
        does not determine them."""
        return self._analysis().outputs(_known_names(columns, case_sensitive=case_sensitive))

    def output_columns(
        self, columns: Mapping[str, tuple[str, ...]] | None = None, *, case_sensitive: bool = False
    ) -> OutputColumns:
        """The output's columns with their places. `columns` as for `outputs`."""
        return self._analysis().output_columns(_known_names(columns, case_sensitive=case_sensitive))

    def mentioned_columns(self) -> Iterator[tuple[str, int, int, bool]]:
        """Columns that the text names: name, line, column, and whether it is all of the name (not
        so in `a.b`)."""
        tree = _parse(self.text, self._lexemes)
        for name, offset, is_all in mentioned_columns(tree) if tree is not None else ():
            yield name, *line_column(self.text, offset), is_all

    def session_place(self) -> tuple[int, int] | None:
        """Line and column of the first call of `session_window`; None if there is none."""
        calls = (x.token for x in self._lexemes if x.is_call)
        sessions = (token.start for token in calls if token.name.lower() == "session_window")
        offset = next(sessions, None)
        return None if offset is None else line_column(self.text, offset)

    def session_inputs(self) -> list[frozenset[str]]:
        """The names of the inputs below each query that calls `session_window`; of all inputs once
        where only Spark can read the text."""
        tree = _parse(self.text, self._lexemes)
        if tree is None:
            return [frozenset(ref.name for ref in self.references)]
        return [
            references.below(self.text, select, tree)
            for select in time_windows.selects_of_sessions(tree)
        ]

    def parameter_place(self, name: str) -> tuple[int, int]:
        """Line and column of the first `:name`."""
        offset = next((at for at, parameter in _parameters(self._lexemes) if parameter == name), 0)
        return line_column(self.text, offset)

    def _analysis(self) -> Analysis:
        """From a new tree: those of thousands of queries would not fit in memory."""
        tree = _parse(self.text, self._lexemes)
        return Analysis(self.text, self._lexemes, tree, self.references, self.volatile, self._shape)

    def column_uses(self, inputs: resolution.InputTypes) -> tuple[ColumnUse, ...]:
        """Where it names columns of these inputs, as far as sqlglot resolves them."""
        tree = _parse(self.text, self._lexemes)
        return (
            () if tree is None else resolution.column_uses(self.text, tree, self.references, inputs)
        )

    def output_types(self, inputs: resolution.InputTypes) -> resolution.OutputTypes | None:
        """The output's columns with their types under these inputs, as far as sqlglot resolves
        them."""
        tree = _parse(self.text, self._lexemes)
        if tree is None:
            return None
        types = resolution.output_types(tree, self.references, inputs)
        names = self.outputs({name: tuple(columns) for name, columns in inputs.items()})
        # Where our own reading gives other names, sqlglot has misread the query.
        if types is None or (names is not None and names != tuple(name for name, _ in types)):
            return None
        return types

    def lineage(
        self, inputs: resolution.InputTypes, columns: Sequence[str] = ()
    ) -> ColumnLineage | None:
        """The lineage of each output column, over these inputs, as far as sqlglot resolves it;
        None: it cannot. `columns`: how the output's are called in fact, in order."""
        tree = _parse(self.text, self._lexemes)
        return (
            None
            if tree is None
            else column_lineage.of_query(tree, self.references, inputs, columns)
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The tokens that its identity is made of."""
        return tuple(lexeme.folded for lexeme in self._lexemes)

    def mode(self, name: str) -> Mode:
        """How the dataset of this name is proven to be readable by the text alone, and why."""
        return self._shape.mode(self.references, name)

    def time_distance(self, name: str, columns: TimeColumns) -> TimeDistance:
        """How far rows of this input lie from those of the anchors that they meet."""
        tree = _parse(self.text, self._lexemes)
        if tree is None:
            return UNKNOWN
        return time_distance(tree, self.references, name, columns)

    def split(self, name: str) -> Split:
        """The query taken apart by parts of this input. Raises Unproven with the obstacle."""
        tree = _parse(self.text, self._lexemes)
        if tree is None or self.volatile:
            raise Unproven(
                "what only Spark can read" if tree is None else self.volatile[0].construct, 0
            )
        return split(self.text, self._lexemes, tree, self.references, name)

    def label_edits(self, name: str) -> tuple[Edit, ...] | None:
        """Edits that carry an `each` input's label through the select list; None: not safely
        possible."""
        driver = self._shape.driver
        if driver is None or driver.name.lower() != name.lower():
            return None
        return edits.label(self.text, self._lexemes, driver)

    def rename_edits(self, names: Mapping[str, str]) -> tuple[Edit, ...]:
        """Edits that give tables other names, by the names they have in the text; columns stay
        qualified as before."""
        return tuple(sorted(edits.rename(self.text, self._lexemes, self.references, names)))

    @property
    def reads_clock(self) -> bool:
        return next(clock.readings(self._lexemes), None) is not None

    def clock_edits(self, as_of: float, timezone: str) -> tuple[Edit, ...]:
        """Edits that put this time, in seconds since 1970, where the query reads the clock."""
        return tuple(clock.stopped(self._lexemes, as_of, timezone))


# Equal texts in branches and dataflows are one.
_analysed_by_text: WeakValueDictionary[str, AnalysedQuery] = WeakValueDictionary()


def analyse(text: str) -> AnalysedQuery:
    """Raises SqlProblem, and nothing else, for text that no transform may run."""
    query = _analysed_by_text.get(text)
    if query is None:
        query = _analysed_by_text[text] = _analysed(text)
    return query


def _analysed(text: str) -> AnalysedQuery:
    lexemes = _without_end(scan(text))
    refuse(text, lexemes)
    check_brackets(text, lexemes)
    tree = _parse(text, lexemes)
    refs = references.from_tree(text, _without_paths(text, lexemes) if tree is None else tree)
    references.check_direct(text, refs)
    constructs = volatile(text, lexemes)
    shape = mode_proof.shape(text, lexemes, tree, refs)
    return AnalysedQuery(
        text=text,
        digest=digest("sql/1", tokens=[x.folded for x in lexemes]),
        references=refs,
        parameters=frozenset(name for _, name in _parameters(lexemes)),
        volatile=constructs,
        parsed=tree is not None,
        _lexemes=lexemes,
        _shape=shape,
        _verdicts=Analysis(text, lexemes, tree, refs, constructs, shape).verdicts(
            (), KnownNames({})
        ),
    )


def _known_names(
    columns: Mapping[str, tuple[str, ...]] | None, *, case_sensitive: bool
) -> KnownNames:
    return KnownNames(
        {name.lower(): names for name, names in (columns or {}).items()}, case_sensitive
    )


def _without_end(lexemes: tuple[Lexeme, ...]) -> tuple[Lexeme, ...]:
    end = len(lexemes)
    while end and lexemes[end - 1].is_symbol(";"):
        end -= 1
    return lexemes[:end]


def _parameters(lexemes: tuple[Lexeme, ...]) -> Iterator[tuple[int, str]]:
    """Offsets of colons that have no operand before them (`v:name` is a path in a variant), and the
    names behind."""
    for before, colon, name in zip(lexemes, lexemes[1:], lexemes[2:], strict=False):
        if colon.is_symbol(":") and name.token.kind in ("word", "quoted") and before.role == "open":
            yield colon.token.start, name.token.name


def _parse(text: str, lexemes: tuple[Lexeme, ...]) -> exp.Expr | None:
    """The tree, or None where the parser is known to fall short of Spark."""
    plain = blank(text, tuple(x.token for x in lexemes if not x.in_hint))
    try:
        tree = _tree(plain)
    except (
        Exception
    ) as e:  # the parser fails on hostile text in many ways; all of them mean the same here
        if has_path(lexemes) and not isinstance(e, RecursionError):
            return None
        raise syntax_problem(text, lexemes, e) from e
    return _query(tree)


def _without_paths(text: str, lexemes: tuple[Lexeme, ...]) -> exp.Expr:
    """The tree of a query that the parser cannot read, without the paths into variants: it names
    the same tables.

    What cannot be read even so is refused. Spark may be able to, and read from places that nothing
    here knows of.
    """
    plain = blank(text, tuple(x.token for x in without_paths(lexemes) if not x.in_hint))
    try:
        return _query(_tree(plain))
    except SqlProblem:
        raise
    except RecursionError as e:
        raise syntax_problem(text, lexemes, e) from e
    except Exception as e:
        problem = syntax_problem(text, lexemes, e)
        problem.hint = "`variant_get(v, '$.a.b', 'string')` says the same as `v:a.b::string`"
        raise problem from e


def _query(tree: exp.Expr) -> exp.Expr:
    if not isinstance(tree, exp.Query) or isinstance(tree, exp.Values) or tree.args.get("into"):
        raise SqlProblem(
            "not-a-query", "a transform is one query", hint="begin with SELECT or WITH"
        )
    return tree


def _tree(plain: str) -> exp.Expr:
    """How many arguments a function takes is for Spark to say: complaints about that alone are
    passed over."""
    try:
        return _parsed(plain, ErrorLevel.RAISE)
    except ParseError as e:
        if not all(
            _is_about_arguments(str(complaint.get("description"))) for complaint in e.errors
        ):
            raise
        return _parsed(plain, ErrorLevel.IGNORE)


def _parsed(plain: str, level: ErrorLevel) -> exp.Expr:
    """As `sqlglot.parse_one`, but that would take GROUP BY window(...) for a clause WINDOW."""
    spark = Dialect.get_or_raise("spark")
    tokens = spark.tokenize(plain)
    for token, following in pairwise(tokens):
        if token.token_type is TokenType.WINDOW and following.token_type is TokenType.L_PAREN:
            token.token_type = TokenType.VAR
    trees = spark.parser(error_level=level).parse(tokens, plain)
    if len(trees) != 1 or trees[0] is None:
        raise ParseError("not one statement")
    return trees[0]


def _is_about_arguments(description: str) -> bool:
    if (match := _ARITY.match(description)) is None:
        return False
    kind = getattr(exp, match[1] or "Func", None)
    return (
        isinstance(kind, type)
        and issubclass(kind, exp.Func)
        and not issubclass(kind, exp.Connector | exp.Case)
    )
