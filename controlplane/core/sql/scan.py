"""Tokens read from left to right: which words are keywords, which names are calls, what stands in
which parenthesis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from controlplane.core.sql import functions, spark_keywords
from controlplane.core.sql.lexer import SqlToken, tokenize
from controlplane.core.sql.sql_problem import problem_at

Role: TypeAlias = Literal["open", "end"]  # does an operand follow, or has one just ended?

# parentheses: far more than people write, far less than exhausts a parser's stack
DEEPEST: Final = 200
_OPENING: Final = frozenset({"(", "-", "+", "~", "!", ":", "?", "/*+"})
_QUERY_STARTS: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "PARTITION", "ORDER", "("})
# Before a parenthesis: of names, if not of a query
_LISTS: Final = frozenset({"AS", "USING", "EXCEPT", "UNPIVOT"})
_SETS: Final = frozenset({"ALL", "DISTINCT", "UNION", "EXCEPT", "INTERSECT", "MINUS"})
_CASTS: Final = frozenset({"CAST", "TRY_CAST"})
_AFTER_NAME: Final = frozenset({".", ":", "("})


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A token in its place. `folded` is its canonical text; `phrase` is set on the first word of a
    keyword phrase."""

    token: SqlToken
    folded: str
    role: Role
    depth: int  # parentheses around it; parentheses themselves count for the outside
    phrase: str = ""
    is_call: bool = False
    in_hint: bool = False

    @property
    def upper(self) -> str:
        """Upper case of an unquoted word, else nothing."""
        return self.token.upper

    def is_symbol(self, *texts: str) -> bool:
        return self.token.kind == "symbol" and self.token.text in texts


def scan(text: str) -> tuple[Lexeme, ...]:
    """Raises SqlProblem for text that has no tokens (a literal without an end) and for absurd
    nesting."""
    return _Scanner(text, tokenize(text)).read()


@dataclass(slots=True)
class _Level:
    owner: str = ""  # the word before the parenthesis
    names_only: bool = False  # a list of names, where nothing is a keyword
    clause: str = ""
    cases: int = 0


@dataclass(slots=True)
class _Scanner:
    text: str
    tokens: tuple[SqlToken, ...]
    out: list[Lexeme] = field(default_factory=list)
    levels: list[_Level] = field(default_factory=lambda: [_Level()])
    in_hint: bool = False
    is_doubtful: bool = False  # could the word just read be a keyword after all?

    def read(self) -> tuple[Lexeme, ...]:
        while (at := len(self.out)) < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "symbol":
                self._symbol(token)
            elif not self._is_foldable(token) or not self._word(at):
                self._plain(token, at)
        return tuple(self.out)

    # --- words ---

    def _is_foldable(self, token: SqlToken) -> bool:
        if not token.upper or self.in_hint or self.levels[-1].names_only or self.is_doubtful:
            return False
        return not self.out or not (
            self._before(".", ":", "@", "$") or self.out[-1].folded in spark_keywords.NAMERS
        )

    def _plain(self, token: SqlToken, at: int) -> None:
        """A literal or a name. After one that could be a keyword, the next word could be
        anything."""
        could_be_keyword = (
            self._is_foldable(token)
            and token.upper in spark_keywords.LEADS
            and not self._after_as()
        )
        self._put(
            token.text,
            "end",
            is_call=token.kind in ("word", "quoted") and self._symbol_at(at + 1) == "(",
        )
        self.is_doubtful = could_be_keyword

    def _word(self, at: int) -> bool:
        """Take a type, a keyword phrase or a function's name; False for any other word."""
        if self._after_as() or self._before("::"):
            is_type = self._before("::") or self.levels[-1].owner in _CASTS
            return is_type and self._key_at(at) in spark_keywords.TYPES and self._fold(1, "end")
        for phrase in self._candidates(at):
            if self._is_keyword(phrase, at + phrase.count(" ") + 1):
                return self._take(phrase)
        is_function = (
            self._symbol_at(at + 1) == "(" and self._key_at(at).lower() in functions.FOLDED
        )
        return (
            is_function
            and self._role() == "open"
            and not self._is_naming()
            and self._fold(1, "open", is_call=True)
        )

    def _candidates(self, at: int) -> Iterator[str]:
        run = [token.upper for token in self.tokens[at : at + spark_keywords.LONGEST]]
        for length in range(len(run), 0, -1):
            if (phrase := " ".join(run[:length])) in spark_keywords.PHRASES:
                yield phrase

    def _is_keyword(self, phrase: str, after: int) -> bool:
        """Can these words be read in no other way, before the token at `after`?"""
        starts = self._starts_operand(phrase, after)
        if self._role() == "end":
            return (phrase in spark_keywords.INFIX and starts) or (
                phrase in spark_keywords.POSTFIX and self._closes(phrase, after)
            )
        if phrase in spark_keywords.TYPED:
            return self._starts_literal(phrase, after)
        if self._is_naming():
            return False
        return (phrase in spark_keywords.PREFIX and starts) or (
            phrase in spark_keywords.ATOM and self._symbol_at(after) not in _AFTER_NAME
        )

    def _closes(self, phrase: str, after: int) -> bool:
        if phrase in spark_keywords.SORTING:  # elsewhere the name of what stands before it
            return self.levels[-1].clause in ("ORDER BY", "SORT BY")
        return (
            self.levels[-1].cases > 0
            if phrase == "END"
            else self._symbol_at(after) not in _AFTER_NAME
        )

    def _is_naming(self) -> bool:
        return self._before(",") and self.levels[-1].clause in spark_keywords.NAMING

    def _starts_operand(self, phrase: str, at: int) -> bool:
        if at >= len(self.tokens) or (phrase.startswith("SELECT") and not self._may_select()):
            return False
        token = self.tokens[at]
        if token.kind != "symbol":
            return token.upper not in spark_keywords.STOPS
        if token.text == "*":
            return phrase.endswith(("SELECT", "DISTINCT"))
        # after a name in place of an operand, these would compute with it
        computes = (
            token.text in ("-", "+") and self._role() == "open" and not phrase.startswith("SELECT")
        )
        return token.text in _OPENING and not computes

    def _may_select(self) -> bool:
        return not self.out or self._before("(", ")") or self.out[-1].folded in _SETS

    def _starts_literal(self, phrase: str, at: int) -> bool:
        kinds = ("string", "number") if phrase == "INTERVAL" else ("string",)
        return at < len(self.tokens) and self.tokens[at].kind in kinds

    def _take(self, phrase: str) -> bool:
        level = self.levels[-1]
        level.cases += phrase.startswith("CASE")
        level.cases -= phrase == "END"
        if phrase in spark_keywords.CLAUSES:
            level.clause = phrase
        is_operand = phrase in spark_keywords.ATOM or phrase in spark_keywords.POSTFIX
        return self._fold(phrase.count(" ") + 1, "end" if is_operand else "open", phrase=phrase)

    def _fold(self, count: int, role: Role, *, phrase: str = "", is_call: bool = False) -> bool:
        for i in range(count):
            self._put(
                self._key_at(len(self.out)), role, phrase=phrase if i == 0 else "", is_call=is_call
            )
        return True

    # --- symbols ---

    def _symbol(self, token: SqlToken) -> None:
        match token.text:
            case "/*+" | "*/":
                self._hint(token.text)
            case "(":
                self._open(token)
            case ")":
                self.levels = self.levels[:-1] or [_Level()]
                self._put(token.text, "end")
            case "]" | "?":
                self._put(token.text, "end")
            case "*" if self._role() == "open" or self._before("."):
                self._put(token.text, "end")  # a star, not a product
            case _:
                self._put(token.text, "open")

    def _hint(self, text: str) -> None:
        role = self._role()
        self.in_hint = True
        self._put(text, role)
        self.in_hint = text == "/*+"

    def _open(self, token: SqlToken) -> None:
        if len(self.levels) > DEEPEST:
            raise problem_at(
                self.text,
                token.start,
                "invalid-sql",
                f"more than {DEEPEST} parentheses within each other",
            )
        owner = self.out[-1].upper if self.out else ""
        is_list = owner in _LISTS and (self._key_at(len(self.out) + 1) or "(") not in _QUERY_STARTS
        names_only = is_list or self._role() == "end" or self.levels[-1].names_only or self._binds()
        # WHERE follows it without an operand between
        self._put(token.text, "end" if owner == "FILTER" and not names_only else "open")
        self.levels.append(_Level(owner, names_only))

    def _binds(self) -> bool:
        """Is this the parameter list of a lambda: (x, y) -> ...?"""
        at = len(self.out) + 1
        while at < len(self.tokens) and (
            self.tokens[at].kind != "symbol" or self.tokens[at].text == ","
        ):
            at += 1
        return self._symbol_at(at) == ")" and self._symbol_at(at + 1) == "->"

    # --- looking around ---

    def _put(self, folded: str, role: Role, *, phrase: str = "", is_call: bool = False) -> None:
        token, depth = self.tokens[len(self.out)], len(self.levels) - 1
        role = self._role() if self.in_hint else role
        self.is_doubtful = False
        self.out.append(
            Lexeme(token, folded, role, depth, phrase, is_call and not self.in_hint, self.in_hint)
        )

    def _role(self) -> Role:
        return self.out[-1].role if self.out else "open"

    def _before(self, *symbols: str) -> bool:
        return bool(self.out) and self.out[-1].is_symbol(*symbols)

    def _after_as(self) -> bool:
        return bool(self.out) and self.out[-1].folded == "AS"

    def _symbol_at(self, at: int) -> str:
        return (
            self.tokens[at].text
            if at < len(self.tokens) and self.tokens[at].kind == "symbol"
            else ""
        )

    def _key_at(self, at: int) -> str:
        return self.tokens[at].upper if at < len(self.tokens) else ""
