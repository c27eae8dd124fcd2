"""The condition on rows that a reader sends as text: a small part of SQL, parsed and typed, and
nothing else.

    origin = 'JFK' AND dep_delay > 15.5
    time_hour >= TIMESTAMP '2013-02-01T00:00Z' OR lower(carrier) IN ('ua', 'aa')
    NOT (dest LIKE 'S%' OR tail IS NULL)

Other syntax is refused, at its place; so no text of a user's reaches an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from controlplane.core.records import typed
from controlplane.core.records.condition_error import bad_condition
from controlplane.core.records.literals import unquoted
from controlplane.core.records.typed import Operand
from controlplane.core.sql.lexer import SqlToken, tokenize
from controlplane.core.sql.sql_problem import SqlProblem
from dataplane.contract.predicates import Condition, Name, PredicateCall
from dataplane.contract.schemas import Schema

LONGEST: Final = 8_000  # characters
MOST: Final = 2_000  # words and symbols
DEEPEST: Final = 50  # parentheses and NOTs within each other
COMPARISONS: Final[dict[str, Name]] = {
    "=": "eq", "==": "eq", "<>": "ne", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "<=>": "same",
}  # fmt: skip
_RESERVED: Final = frozenset(
    {
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "LIKE",
        "ILIKE",
        "BETWEEN",
        "TRUE",
        "FALSE",
        "ESCAPE",
        "CASE",
        "CAST",
    }
)
_QUERIES: Final = frozenset({"SELECT", "FROM", "WITH", "VALUES", "TABLE", "EXISTS"})


def parse(text: str, schema: Schema) -> Condition:
    """Raises BadCondition for text that is no condition on one row of this schema, with the
    place."""
    if len(text) > LONGEST:
        raise bad_condition(text, 0, f"it is longer than {LONGEST:,} characters")
    try:
        tokens = tokenize(text)
    except SqlProblem as e:
        raise bad_condition(text, _offset(text, e), e.message) from None
    if not tokens:
        raise bad_condition(text, 0, "it is empty")
    if len(tokens) > MOST:
        raise bad_condition(text, tokens[MOST].start, f"it has more than {MOST:,} words")
    return _Parser(text, tokens, typed.ConditionColumns(text, schema)).condition()


def _offset(text: str, problem: SqlProblem) -> int:
    lines = text.split("\n")[: problem.line - 1]
    return sum(len(line) + 1 for line in lines) + problem.column - 1


@dataclass(slots=True)
class _Parser:
    text: str
    tokens: tuple[SqlToken, ...]
    columns: typed.ConditionColumns
    at: int = 0
    depth: int = field(default=0)

    def condition(self) -> Condition:
        condition = self._condition()
        if self.at < len(self.tokens):
            self._refuse(f"{self._shown()} is not expected here")
        return condition

    # --- AND, OR, NOT

    def _condition(self) -> Condition:
        return typed.truth(self.text, self._any())

    def _any(self) -> Operand:
        return self._joined("OR", "or", self._all)

    def _all(self) -> Operand:
        return self._joined("AND", "and", self._not)

    def _joined(self, word: str, name: Name, part: Callable[[], Operand]) -> Operand:
        first = part()
        if not self._is_word(word):
            return first
        parts = [typed.truth(self.text, first)]
        while self._take_word(word):
            parts.append(typed.truth(self.text, part()))
        return Operand(PredicateCall(name, tuple(parts)), "boolean", first.start)

    def _not(self) -> Operand:
        start = self._start()
        if not self._take_word("NOT"):
            return self._test()
        with_not = self._deeper(self._not)
        return Operand(_negated(typed.truth(self.text, with_not)), "boolean", start)

    # --- one test

    def _test(self) -> Operand:
        left = self._value()
        if self._symbol() in COMPARISONS:
            name = COMPARISONS[self._next().text]
            right = self._value()
            if self._symbol() in COMPARISONS:
                self._refuse("comparisons do not chain; join two by AND")
            return self._boolean(left, typed.compared(self.text, name, left, right))
        if self._take_word("IS"):
            return self._boolean(left, self._is(left))
        is_not = self._take_word("NOT")
        test = self._ranged(left)
        if test is None:
            if is_not:
                self._refuse(f"{self._shown()} is not expected after NOT; IN, BETWEEN or LIKE is")
            return left
        return self._boolean(left, _negated(test) if is_not else test)

    def _ranged(self, left: Operand) -> Condition | None:
        if self._take_word("IN"):
            return self._in(left)
        if self._take_word("BETWEEN"):
            low = self._value()
            if not self._take_word("AND"):
                self._refuse("AND is expected here")
            high = self._value()
            least = typed.compared(self.text, "ge", left, low)
            most = typed.compared(self.text, "le", left, high)
            return PredicateCall("and", (least, most))
        if self._take_word("LIKE"):
            return typed.liked(self.text, "like", left, self._value())
        if self._take_word("ILIKE"):
            return typed.liked(self.text, "ilike", left, self._value())
        return None

    def _is(self, left: Operand) -> Condition:
        is_not = self._take_word("NOT")
        if self._take_word("NULL"):
            condition: Condition = PredicateCall("is_null", (typed.column_of(self.text, left),))
        elif self._is_word("TRUE", "FALSE"):
            condition = typed.compared(self.text, "same", left, self._value())
        else:
            self._refuse(f"{self._shown()} is not expected after IS; NULL, TRUE or FALSE is")
        return _negated(condition) if is_not else condition

    def _in(self, left: Operand) -> Condition:
        self._expect_symbol("(")
        if self._word() in _QUERIES:
            self._refuse("a condition looks at one row, and reads no other")
        values = [self._value()]
        while self._symbol() == ",":
            self._next()
            values.append(self._value())
        self._expect_symbol(")")
        return typed.among(self.text, left, values)

    # --- values

    def _value(self) -> Operand:
        token = self._peek()
        if token is None:
            self._refuse("it ends where a value is expected")
        if token.kind == "string":
            return typed.literal("string", unquoted(self._next().text), token.start)
        if token.kind == "number":
            return typed.number(self.text, self._next().text, token.start)
        if token.kind == "symbol":
            return self._symbolic(token)
        return self._named(token)

    def _symbolic(self, token: SqlToken) -> Operand:
        if token.text == "(":
            self._next()
            if self._word() in _QUERIES:
                self._refuse("a condition looks at one row, and reads no other")
            operand = self._deeper(self._any)
            self._expect_symbol(")")
            return operand
        if token.text in "+-":
            self._next()
            following = self._peek()
            if following is None or following.kind != "number":
                self._refuse(
                    f"a number is expected after {token.text}; nothing is computed in a condition"
                )
            sign = "-" if token.text == "-" else ""
            return typed.number(self.text, sign + self._next().text, token.start)
        return self._refuse(f"{self._shown()} is not expected here; a column or a value is")

    def _named(self, token: SqlToken) -> Operand:
        if token.upper in ("TRUE", "FALSE"):
            return typed.literal("boolean", self._next().upper.lower(), token.start)
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else None
        if (
            token.upper in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")
            and following
            and following.kind == "string"
        ):
            self._next()
            return typed.timed(self.text, token.upper, unquoted(self._next().text), following.start)
        if following is not None and following.kind == "symbol" and following.text == "(":
            return self._call(token)
        if token.upper in _QUERIES:
            self._refuse("a condition looks at one row, and reads no other")
        if token.upper == "NULL":
            self._refuse("nothing equals NULL; write IS NULL")
        if token.upper in _RESERVED:
            self._refuse(f"{self._shown()} is not expected here; a column or a value is")
        return self._column()

    def _column(self) -> Operand:
        first = self._next()
        path = [first.name]
        while self._symbol() == ".":
            self._next()
            token = self._peek()
            if token is None or token.kind not in ("word", "quoted"):
                self._refuse("the name of a field is expected after the dot")
            path.append(self._next().name)
        return self.columns.column(path, first.start)

    def _call(self, token: SqlToken) -> Operand:
        name = self._next().name.lower()
        if name not in typed.FUNCTIONS:
            functions = ", ".join(sorted(typed.FUNCTIONS))
            raise bad_condition(
                self.text,
                token.start,
                f"{name}(...) is no function of conditions; there are {functions}",
            )
        self._expect_symbol("(")
        argument = self._deeper(self._value)
        self._expect_symbol(")")
        return typed.called(self.text, name, argument, token.start)

    # --- tokens

    def _boolean(self, left: Operand, condition: Condition) -> Operand:
        return Operand(condition, "boolean", left.start)

    def _deeper(self, part: Callable[[], Operand]) -> Operand:
        self.depth += 1
        if self.depth > DEEPEST:
            self._refuse(f"more than {DEEPEST} parts are within each other")
        operand = part()
        self.depth -= 1
        return operand

    def _peek(self) -> SqlToken | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _next(self) -> SqlToken:
        self.at += 1
        return self.tokens[self.at - 1]

    def _start(self) -> int:
        token = self._peek()
        return len(self.text) if token is None else token.start

    def _word(self) -> str:
        token = self._peek()
        return "" if token is None else token.upper

    def _symbol(self) -> str:
        token = self._peek()
        return token.text if token is not None and token.kind == "symbol" else ""

    def _is_word(self, *words: str) -> bool:
        return self._word() in words

    def _take_word(self, word: str) -> bool:
        if self._word() != word:
            return False
        self.at += 1
        return True

    def _expect_symbol(self, text: str) -> None:
        if self._symbol() != text:
            self._refuse(f"{text} is expected here")
        self.at += 1

    def _shown(self) -> str:
        token = self._peek()
        return "the end" if token is None else token.text[:40]

    def _refuse(self, message: str) -> NoReturn:
        raise bad_condition(self.text, self._start(), message)


def _negated(condition: Condition) -> Condition:
    return PredicateCall("not", (condition,))
