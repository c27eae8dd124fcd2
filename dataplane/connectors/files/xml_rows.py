"""Rows of XML as CSV: each element of one name is a row, its attributes and the elements in it are
columns.

No document type is accepted: so there are no entities of a file's own, and nothing is read from
elsewhere.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, TextIO
from xml.parsers import expat

JOINT = "."  # between the names on the way to a column
MOST_DEPTH = 100
MOST_COLUMNS = 10_000
MOST_CHARACTERS = 64_000_000  # of one row
CHUNK = 1 << 16


class BadXml(ValueError):
    """`line` is the place in the file, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def write_xml_rows(
    open_file: Callable[[], AbstractContextManager[BinaryIO]],
    target: Path,
    row_tag: str,
    most_bytes: int,
) -> None:
    """The rows of a file as CSV with a header, in two passes: for the names, and for the values.
    BadXml for a file that has no such rows."""
    names: dict[str, None] = {}
    with open_file() as file:
        _parse(file, row_tag, lambda row: _add_names(names, row), most_bytes)
    with open_file() as file, target.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(names)

        def write(row: dict[str, str]) -> None:
            writer.writerow([row.get(name, "") for name in names])
            _check_size(output, most_bytes)

        _parse(file, row_tag, write, most_bytes)


def _check_size(output: TextIO, most_bytes: int) -> None:
    if output.tell() > most_bytes:
        raise ValueError(f"its rows take more than {most_bytes >> 20} MiB")


def _add_names(names: dict[str, None], row: dict[str, str]) -> None:
    names |= dict.fromkeys(row)
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"its rows have more than {MOST_COLUMNS} columns")


def _parse(
    file: BinaryIO, row_tag: str, take: Callable[[dict[str, str]], None], most_bytes: int
) -> None:
    rows = _Rows(row_tag, take)
    parser, size = rows.parser, 0
    try:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            if size > most_bytes:
                raise ValueError(f"it takes more than {most_bytes >> 20} MiB unpacked")
            parser.Parse(chunk, False)
        parser.Parse(b"", True)
    except expat.ExpatError as e:
        raise BadXml(expat.errors.messages[e.code], e.lineno) from e
    except BadXml:
        raise
    except ValueError as e:
        raise BadXml(str(e), parser.CurrentLineNumber) from e


class _Rows:
    """Takes the events of a parser, and gives each row as texts by column."""

    def __init__(self, row_tag: str, take: Callable[[dict[str, str]], None]) -> None:
        self._row_tag, self._take = row_tag, take
        self._depth = 0
        self._row: dict[str, str] = {}
        self._path: list[str] = []  # of the open elements, from the row on; empty outside of rows
        self._texts: list[list[str]] = []
        self._has_elements: list[bool] = []
        self._characters = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _refuse(self, *_: object) -> None:
        raise ValueError("a document type (<!DOCTYPE) is not accepted: remove it from the file")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise ValueError(f"elements lie more than {MOST_DEPTH} deep")
        if not self._path and name != self._row_tag:
            return
        if not self._path:
            self._row, self._characters = {}, 0
        else:
            self._has_elements[-1] = True
        self._path.append(name)
        self._texts.append([])
        self._has_elements.append(False)
        for attribute, text in attributes.items():
            self._put(f"_{attribute}", text)

    def _end(self, _: str) -> None:
        self._depth -= 1
        if not self._path:
            return
        text, has_elements = "".join(self._texts.pop()).strip(), self._has_elements.pop()
        if has_elements and text:
            raise ValueError(f"text stands beside elements in <{self._path[-1]}>")
        if not has_elements and (text or len(self._path) > 1):
            self._put("", text)
        self._path.pop()
        if not self._path:
            self._take(self._row)

    def _put(self, name: str, text: str) -> None:
        """A value of the open element: its text, or that of an attribute."""
        column = JOINT.join([*self._path[1:], *([name] if name else [])]) or "_VALUE"
        if column in self._row:
            raise ValueError(
                f"{column} stands more than once in one <{self._row_tag}>: only rows of single "
                "values can be read"
            )
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            raise ValueError(f"a row has more than {MOST_CHARACTERS} characters")
        self._row[column] = text

    def _text(self, text: str) -> None:
        if self._path:
            self._characters += len(text)
            if self._characters > 2 * MOST_CHARACTERS:
                raise ValueError(f"a row has more than {MOST_CHARACTERS} characters")
            self._texts[-1].append(text)
