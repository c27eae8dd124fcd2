"""Faults of a `schema:` text, and the word at fault: a reader of `name TYPE, ...` for the sake of
its mistakes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

EXAMPLE: Final = "for example: year INT, name STRING"
PLAIN: Final = frozenset(
    {
        *(
            "BIGINT",
            "BINARY",
            "BOOLEAN",
            "BYTE",
            "CHAR",
            "CHARACTER",
            "DATE",
            "DEC",
            "DECIMAL",
            "DOUBLE",
            "FLOAT",
        ),
        *(
            "INT",
            "INTEGER",
            "LONG",
            "NUMERIC",
            "REAL",
            "SHORT",
            "SMALLINT",
            "STRING",
            "TIMESTAMP",
            "TIMESTAMP_LTZ",
        ),
        *("TIMESTAMP_NTZ", "TINYINT", "VARCHAR"),
    }
)
NESTED: Final = {
    "ARRAY": "ARRAY<STRING>",
    "MAP": "MAP<STRING, INT>",
    "STRUCT": "STRUCT<name: STRING, n: INT>",
}
MOST_DIGITS: Final = 38  # of Spark's decimals
_TEXTS: Final = frozenset({"CHAR", "CHARACTER", "STRING", "VARCHAR"})
_CONSTRAINTS: Final = frozenset(
    {"CHECK", "COLLATE", "CONSTRAINT", "DEFAULT", "GENERATED", "REFERENCES", "UNIQUE", "VARYING"}
)
_DECIMALS: Final = frozenset({"DEC", "DECIMAL", "NUMERIC"})
_MEANT: Final = {  # names that other systems have
    "BLOB": "BINARY", "BOOL": "BOOLEAN", "BYTEA": "BINARY", "BYTES": "BINARY", "CLOB": "STRING",
    "DATETIME": "TIMESTAMP", "FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "INT16": "SMALLINT", "INT32": "INT",
    "INT64": "BIGINT", "INT8": "TINYINT", "JSON": "STRING", "LIST": "ARRAY", "NUMBER": "DECIMAL", "OBJECT": "STRUCT",
    "STR": "STRING", "TEXT": "STRING", "TIME": "STRING", "UUID": "STRING", "VARIANT": "STRING",
}  # fmt: skip
_TOKEN: Final = re.compile(r"`(?:``|[^`])*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|\S")
_NUMBER: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_TYPE_WORDS: Final = tuple(sorted(PLAIN | NESTED.keys()))
_CLOSING: Final = {"<": ">", "(": ")"}


@dataclass(frozen=True, slots=True)
class DdlFault:
    """A fault at an offset of the text."""

    offset: int
    message: str
    hint: str
    is_certain: bool = False  # else it is one only if the text is not read as a schema
    kind: str = ""  # the type that is none


def ddl_faults(text: str) -> list[DdlFault]:
    """All that is wrong with a list of columns and types, in order. The list is empty for every
    right text."""
    reader = _TypeReader([(m[0], m.start()) for m in _TOKEN.finditer(text)], len(text))
    reader.columns("")
    return reader.faults


def refused(text: str, faults: list[DdlFault]) -> list[DdlFault]:
    """The faults for which a text cannot be taken: more types are read than are written down
    here."""
    certain = [fault for fault in faults if fault.is_certain]
    if not faults or (not certain and _is_read(text)):
        return []
    return [fault for fault in faults if not (fault.kind and _is_read(f"a {fault.kind}"))]


def _is_read(text: str) -> bool:
    # A parser library: for wrong texts only
    from controlplane.core.schema.ddl_schemas import InvalidSchema, parse_ddl

    try:
        parse_ddl(text)
    except InvalidSchema:
        return False
    return True


class _UnreadableError(Exception):
    """The rest cannot be read, for a reason that was noted."""


@dataclass(slots=True)
class _TypeReader:
    tokens: list[tuple[str, int]]
    end: int
    at: int = 0
    # The column that is read, and the fields down to it; empty in an array or a map
    path: tuple[str, ...] = ()
    faults: list[DdlFault] = field(default_factory=list)

    def columns(self, closing: str) -> None:
        """`name TYPE, ...` up to a closing bracket, or to the end."""
        names: set[str] = set()
        try:
            self._column(names, is_field=bool(closing))
            while self._text() == ",":
                self.at += 1
                self._column(names, is_field=bool(closing))
            if self._text() != closing:
                self._unexpected(closing)
        except _UnreadableError:
            self.at = len(self.tokens)

    def _column(self, names: set[str], *, is_field: bool) -> None:
        name = self._text()
        if not is_field and self._is_key_of_table():
            return
        if not _is_name(name):
            self._note(self.at, "a column is missing here", EXAMPLE, is_certain=True)
            raise _UnreadableError
        place, self.at = self.at, self.at + 1
        if name in names:
            message = f"the column {name[:40]} is declared twice"
            self._note(place, message, "remove one, or rename it", is_certain=True)
        names.add(name)
        if self._text() == ":":
            self._colon(is_field=is_field)
        if self._text() not in ("", ",", ">", ")") and not _is_name(self._text()):
            self._stop(
                f"{self._text()!r} in the name of a column",
                "put the name in backquotes: `flight-no` INT",
            )
        if not _is_name(self._text()):
            self.at = place
            self._stop(f"{name[:40]!r} has no type", f"for example: {name[:40]} STRING")
        outside, self.path = self.path, (*self.path, name) if self.path or not is_field else ()
        self._type()
        self._tail()
        self.path = outside

    def _is_key_of_table(self) -> bool:
        """`PRIMARY KEY (a, b)` after the columns."""
        words = [token.upper() for token, _ in self.tokens[self.at : self.at + 3]]
        if words != ["PRIMARY", "KEY", "("]:
            return False
        place, self.at = self.at, self.at + 3
        names: list[str] = []
        while self._text() not in (")", ""):
            names += [self._text()] if self._text() != "," else []
            self.at += 1
        self.at += 1
        self._note_key(place, names)
        return True

    def _note_key(self, at: int, names: list[str]) -> None:
        checks = [f"{{check: {_quoted(f'{name} IS NOT NULL')}}}" for name in names]
        lines = ", ".join([f"{{unique: [{', '.join(map(_plain, names))}]}}", *checks])
        self._note(
            at,
            "PRIMARY KEY is not kept",
            f"leave it out, and write expect: [{lines}]",
            is_certain=True,
        )

    def _colon(self, *, is_field: bool) -> None:
        if not is_field:
            self._note(
                self.at, "a colon between a column and its type", "write a space: name STRING"
            )
        self.at += 1

    def _type(self) -> None:
        place, word = self.at, self._text().upper()
        self.at += 1
        if word in NESTED:
            self._nested(word, place)
        elif word in PLAIN:
            self._size(word)
        else:
            written = self.tokens[place][0][:40]
            self._note(place, f"{written!r} is no type", _type_hint(word), kind=written)
            self._skip_brackets()

    def _nested(self, word: str, place: int) -> None:
        if self._text() != "<":
            self._note(place, f"{word} without the types in it", f"for example: {NESTED[word]}")
            return
        opening, self.at = self.at, self.at + 1
        if word == "STRUCT":
            self.columns(">")
        else:
            outside, self.path = self.path, ()
            self._types(2 if word == "MAP" else 1, word)
            self.path = outside
        if self._text() != ">" and not self.faults:
            self.at = opening
            self._stop("'<' is never closed", "add '>'")
        self.at += 1

    def _types(self, count: int, word: str) -> None:
        for number in range(count):
            if number:
                if self._text() != ",":
                    self._stop(f"{word} takes two types", f"for example: {NESTED[word]}")
                self.at += 1
            if not _is_name(self._text()):
                self._stop("a type is missing here", f"for example: {NESTED[word]}")
            self._type()

    def _size(self, word: str) -> None:
        """`(10, 2)` of decimals, `(20)` of texts."""
        if self._text() != "(":
            return
        opening = self.at
        digits: list[str] = []
        while self._text() not in (")", ""):
            self.at += 1
            sign, self.at = ("-", self.at + 1) if self._text() == "-" else ("", self.at)
            digits += [sign + self._text()] if self._text() not in (")", ",", "") else []
        if not self._text():
            self.at = opening
            self._stop("'(' is never closed", "add ')'")
        self.at += 1
        if (digits[:1] and digits[0][0] == "-") or not all(_NUMBER.fullmatch(d) for d in digits):
            self._note(opening, f"the size of {word} is a number", f"for example: {word}(10)")
        elif word not in _DECIMALS:
            self._unkept_size(word, digits, opening)
        elif digits and int(digits[0]) + max(0, *(-int(d) for d in digits[1:]), 0) > MOST_DIGITS:
            message = f"{word} holds at most {MOST_DIGITS} digits"
            self._note(opening, message, f"{word}({MOST_DIGITS}, 2)", is_certain=True)

    def _unkept_size(self, word: str, digits: list[str], opening: int) -> None:
        """Report the size of a type that has none here."""
        size = f"{word}({', '.join(digits)})"
        kind = "STRING" if word in _TEXTS else word
        is_length = word in _TEXTS and len(digits) == 1 and bool(self.path)
        limit = _expected(f"length({'.'.join(self.path)}) <= {digits[0]}") if is_length else ""
        self._note(
            opening - 1, f"the size of {size} is not kept", f"write {kind}{limit}", is_certain=True
        )

    def _tail(self) -> None:
        """NOT NULL, COMMENT and the like."""
        words = {"NOT", "NULL", "COMMENT", "PRECISION", "PRIMARY", "KEY"}
        while self._text().upper() in words or self._text()[:1] in ("'", '"'):
            following = (
                self.tokens[self.at + 1][0].upper() if self.at + 1 < len(self.tokens) else ""
            )
            match self._text().upper(), following:
                case "NOT", "NULL":
                    limit = _expected(f"{'.'.join(self.path)} IS NOT NULL") if self.path else ""
                    self._note(
                        self.at, "NOT NULL is not kept", f"leave it out{limit}", is_certain=True
                    )
                case "PRIMARY", "KEY":
                    self._note_key(self.at, [".".join(self.path)])
            self.at += 1
        if (word := self._text().upper()) in _CONSTRAINTS:
            self._note(
                self.at,
                f"{word} is not kept",
                "leave it out, and write expect: what rows fulfil",
                is_certain=True,
            )
            raise _UnreadableError

    def _skip_brackets(self) -> None:
        if self._text() not in _CLOSING:
            return
        depth = 0
        while self._text():
            depth += (self._text() in _CLOSING) - (self._text() in _CLOSING.values())
            self.at += 1
            if not depth:
                return

    def _unexpected(self, closing: str) -> None:
        text = self._text()
        if not text:
            self._stop(f"{closing!r} is missing at the end", f"add {closing!r}")
        if _is_name(text):
            self._stop(f"a comma is missing before {text[:40]!r}", EXAMPLE)
        self._stop(f"{text[:40]!r} is not expected here", EXAMPLE)

    def _text(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _note(
        self, at: int, message: str, hint: str, *, is_certain: bool = False, kind: str = ""
    ) -> None:
        offset = self.tokens[at][1] if at < len(self.tokens) else self.end
        self.faults.append(DdlFault(offset, message, hint, is_certain, kind))

    def _stop(self, message: str, hint: str) -> None:
        self._note(self.at, message, hint)
        raise _UnreadableError


def _expected(condition: str) -> str:
    """The lines of a component that check what its schema cannot say."""
    return f", and write expect: [{{check: {_quoted(condition)}}}]"


def _quoted(condition: str) -> str:
    """As YAML in one line has it."""
    return f'"{condition}"' if "`" in condition else condition


def _plain(name: str) -> str:
    """A column, as `unique` names it."""
    return (
        name if name[:1] != "`" else json.dumps(name[1:-1].replace("``", "`"), ensure_ascii=False)
    )


def _is_name(token: str) -> bool:
    return token[:1] == "`" or re.match(r"\w", token) is not None


def _type_hint(word: str) -> str:
    if word in _MEANT:
        return f"write {_MEANT[word]}"
    near = get_close_matches(word[:40], _TYPE_WORDS, n=1, cutoff=0.7)
    return (
        f"did you mean {near[0]}?"
        if near
        else "for example STRING, INT, DOUBLE, DATE, DECIMAL(10, 2)"
    )


def lines_and_columns(text: str, faults: list[DdlFault]) -> Iterator[tuple[int, int, DdlFault]]:
    for fault in faults:
        before = text[: fault.offset]
        yield before.count("\n") + 1, fault.offset - (before.rfind("\n") + 1) + 1, fault
