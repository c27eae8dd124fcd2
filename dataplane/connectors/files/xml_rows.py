"""Rows of XML as CSV: each element of one name is a row, its attributes and the elements in it are
columns. Runs in a process with bounds.

No document type is accepted: so there are no entities of a file's own, and nothing is read from
elsewhere.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from xml.parsers import expat

from dataplane.connectors.files.bad_rows import BadRows

JOINT = "."  # between the names on the way to a column
MOST_DEPTH = 100
MOST_COLUMNS = 10_000
MOST_CHARACTERS = 64_000_000  # of one row
MOST_NAME = 1000  # characters of a column's name, and of any name in the file
MOST_NAMES = 1_000_000  # characters of all columns' names
CHUNK = 1 << 20
# Between two events, such as in a tag or a comment: expat looks at all of it again with each chunk
MOST_TOKEN = 8 << 20


def write_xml_rows(source: Path, target: Path, row_tag: str) -> int:
    """The rows of a file as CSV with a header, in two passes: for the names, and for the values.
    The number of columns. BadRows for a file that has no such rows."""
    first = _Rows(row_tag, lambda _: None)
    _parse(source, first)
    names = list(first.places)
    with target.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(names)
        second = _Rows(row_tag, lambda row: writer.writerow([row.get(n, "") for n in names]))
        _parse(source, second)
    return len(names)


def _parse(source: Path, rows: _Rows) -> None:
    parser, size = rows.parser, 0
    try:
        with source.open("rb") as file:
            while chunk := file.read(CHUNK):
                parser.Parse(chunk, False)
                size += len(chunk)
                if size - max(parser.CurrentByteIndex, 0) > MOST_TOKEN:
                    raise ValueError(f"a tag or a comment takes more than {MOST_TOKEN >> 20} MiB")
            parser.Parse(b"", True)
    except expat.ExpatError as e:
        raise BadRows(expat.errors.messages[e.code], line=e.lineno) from e
    except BadRows as e:
        raise BadRows(str(e), e.condition, parser.CurrentLineNumber) from e
    except ValueError as e:
        raise BadRows(str(e), line=parser.CurrentLineNumber) from e


class _Rows:
    """Takes the events of a parser, and gives each row as texts by column. `places`: the way to
    each column, as names of elements and of an attribute (`@name`)."""

    def __init__(self, row_tag: str, take: Callable[[dict[str, str]], object]) -> None:
        self.places: dict[str, tuple[str, ...]] = {}
        self._row_tag, self._take = row_tag, take
        self._depth = 0
        self._row: dict[str, str] = {}
        self._path: list[str] = []  # of the open elements, from the row on; empty outside of rows
        self._texts: list[list[str]] = []
        self._has_elements: list[bool] = []
        self._characters = self._name_characters = 0
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
        if max(map(len, (name, *attributes))) > MOST_NAME:
            raise ValueError(f"a name has more than {MOST_NAME} characters")
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
            self._put(attribute, text)

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

    def _put(self, attribute: str, text: str) -> None:
        """A value of the open element: its text, or that of an attribute."""
        elements = self._path[1:]
        column = JOINT.join([*elements, f"_{attribute}"] if attribute else elements) or "_VALUE"
        place = (*elements, f"@{attribute}") if attribute else tuple(elements)
        if column not in self.places:
            self._add(column, place)
        if self.places[column] != place:
            message = f"two attributes or elements give the column {column}: rename one of them"
            raise BadRows(message, "schema-clash")
        if column in self._row:
            raise ValueError(
                f"{column} stands more than once in one <{self._row_tag}>: only rows of single "
                "values can be read"
            )
        self._count(text)
        self._row[column] = text

    def _add(self, column: str, place: tuple[str, ...]) -> None:
        if len(column) > MOST_NAME:
            raise ValueError(f"the name of a column has more than {MOST_NAME} characters")
        self._name_characters += len(column)
        if len(self.places) >= MOST_COLUMNS or self._name_characters > MOST_NAMES:
            raise ValueError(
                f"its rows have more than {MOST_COLUMNS} columns, or names of more than "
                f"{MOST_NAMES} characters"
            )
        self.places[column] = place

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > 2 * MOST_CHARACTERS:  # each text of an element counts twice
            raise ValueError(f"a row has more than {MOST_CHARACTERS} characters")

    def _text(self, text: str) -> None:
        if self._path:
            self._count(text)
            self._texts[-1].append(text)
