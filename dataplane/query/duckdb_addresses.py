"""Addresses in a query's text: `flights.delays@2` becomes `flights."delays@2"`, which DuckDB reads
as one name.

Nothing else of the text is touched. Strings, quoted names and comments are left alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = r'(?:[A-Za-z_]\w*|"(?:[^"]|"")*")'
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)"
_TOKEN = re.compile(
    rf"""(?P<front>(?:{_NAME}\.){{1,2}})(?P<last>{_NAME})@(?P<point>{_TIME}|\d+)(?![\w.])
    | --[^\n\r]*
    | (?P<open>/\*)
    | \b[eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | (?P<dollars>\$(?:[A-Za-z_]\w*)?\$)
    | {_NAME} | \d\w*
    """,
    re.VERBOSE | re.DOTALL,
)
_FIRST = re.compile(_NAME)
OWN = "memory"  # DuckDB's name of the database that references without a branch are looked up in
RESERVED = frozenset({"main", "memory", "temp", "system"})
_COMMENT = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Quoted:
    """Text for the engine, and where its characters were: at `places[i]` of it, `shifts[i]` more
    stand before."""

    text: str
    places: tuple[int, ...]
    shifts: tuple[int, ...]
    before: Quoted | None = None  # what this was made from, if that was not the written text

    def origin(self, at: int) -> int:
        """The character of the written text for one of the engine's."""
        position = bisect_right(self.places, at)
        place = max(0, at - (self.shifts[position - 1] if position else 0))
        return place if self.before is None else self.before.origin(place)

    def origin_of_byte(self, at: int) -> int:
        """The same for a place that DuckDB reports: it counts bytes."""
        return self.origin(len(self.text.encode()[:at].decode(errors="ignore")))


def quoted(sql: str) -> Quoted:
    """The query with each address in quotes."""
    parts, places, shifts = list[str](), list[int](), list[int]()
    at = written = length = 0
    while match := _TOKEN.search(sql, at):
        at = _end(sql, match)
        if match["point"] is None:
            continue
        parts.append(sql[written : match.start("last")])
        name = match["last"] if match["last"].startswith('"') else f'"{match["last"]}"'
        parts.append(f'{name[:-1]}@{match["point"]}"')
        length += len(parts[-2]) + len(parts[-1])
        written = match.end()
        places.append(length)
        shifts.append(length - written)
    parts.append(sql[written:])
    return Quoted("".join(parts), tuple(places), tuple(shifts))


def catalog_of(branch: str) -> str:
    """DuckDB's name of what holds the tables of a branch."""
    return f"{branch} branch" if branch in RESERVED else branch


def with_catalogs(text: Quoted, branches: Iterable[int], dataflows: Iterable[int]) -> Quoted:
    """Names that DuckDB keeps for itself become those of `catalog_of` where they are branches, and
    get a catalog where they are dataflows. `branches`, `dataflows`: where tables begin with a name
    of that kind, in bytes."""
    parts, places, shifts = list[str](), list[int](), list[int]()
    written = length = 0
    flow_places = set(dataflows)
    for byte in sorted({*branches, *flow_places}):
        at = len(text.text.encode()[:byte].decode(errors="ignore"))
        match = _FIRST.match(text.text, at)
        name = "" if match is None else match[0].strip('"').lower()
        if match is None or name not in RESERVED:
            continue
        engine_name = f'"{OWN}"."{name}"' if byte in flow_places else f'"{catalog_of(name)}"'
        parts += [text.text[written:at], engine_name]
        length += len(parts[-2]) + len(parts[-1])
        written = match.end()
        places.append(length)
        shifts.append(length - written)
    parts.append(text.text[written:])
    return Quoted("".join(parts), tuple(places), tuple(shifts), text)


def _end(sql: str, match: re.Match[str]) -> int:
    if match["open"]:
        return _end_of_comment(sql, match.end())
    if match["dollars"]:
        end = sql.find(match["dollars"], match.end())
        return len(sql) if end < 0 else end + len(match["dollars"])
    return match.end()


def _end_of_comment(sql: str, at: int) -> int:
    """Comments of blocks stand in each other."""
    depth = 1
    for mark in _COMMENT.finditer(sql, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)
