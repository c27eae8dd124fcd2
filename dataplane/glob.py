r"""Finding files by glob, by the rules that Spark and Hadoop have: `*`, `?`, `[a-z]`, `[^a]`, `{a,b}`, `\` before
any of them; and `**` as a folder of a glob stands for any number of folders.

A name that starts with `_` or `.` is hidden: no glob finds it, only its full name does. A folder that is found stands
for the visible files directly in it. Links are followed, but not by `**`; one that leads nowhere is an error, wherever
in a path it stands: what lies behind it is not known. Does not belong here: reading files.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

_SPECIAL = re.compile(r"[*?\[{\\]")


class BadGlob(ValueError):
    """A bracket that is not closed, or a range that is backwards."""


def find(pattern: str, folder: str) -> Iterator[str]:
    """Paths of all files that `pattern` (which starts with the existing folder `folder`) finds, in no order.

    A path may come twice. OSError if anything cannot be looked at; FileNotFoundError if the folder, or a file without
    a glob, is missing. Folders are read while the paths are taken.
    """
    if not stat.S_ISDIR(os.stat(folder).st_mode):
        raise NotADirectoryError(f"not a folder: {folder}")
    rest = pattern.removeprefix(folder)
    if not _SPECIAL.search(rest):
        os.stat(pattern)
    for alternative in braces(rest):
        segments = [s for s in alternative.split("/") if s]
        yield from _matches(folder.rstrip("/"), segments, is_folder=True)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a glob finds a file by its name, where there are no folders but in names: as `find` does, of which
    `pattern` is the part below the folder."""
    alternatives = [[_part(s) for s in text.split("/") if s] for text in braces(pattern)]
    return lambda name: any(_is_found(wanted, name.split("/")) for wanted in alternatives)


_Part: TypeAlias = "Callable[[str], object] | None"  # None: any number of folders


def _part(segment: str) -> _Part:
    if segment == "**":
        return None
    if not _SPECIAL.search(segment):
        return segment.__eq__
    matches = re.compile(translate(segment), re.DOTALL).fullmatch
    return lambda name: not _is_hidden(name) and matches(name)


def _is_found(wanted: Sequence[_Part], names: Sequence[str]) -> bool:
    if not wanted:
        return not names or (len(names) == 1 and not _is_hidden(names[0]))
    head, rest = wanted[0], wanted[1:]
    if head is None:
        below = len(names) > 1 and not _is_hidden(names[0]) and _is_found(wanted, names[1:])
        return below or bool(names and _is_found(rest, names))
    return bool(names and head(names[0])) and _is_found(rest, names[1:])


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def braces(text: str) -> list[str]:
    """All texts that `{a,b}` stands for; braces may be nested, and alternatives may hold slashes."""
    opened = _first(text, "{")
    if opened < 0:
        return [text]
    closed, cuts = _closing(text, opened)
    parts = [text[a + 1 : b] for a, b in zip([opened, *cuts], [*cuts, closed], strict=True)]
    heads, tails = text[:opened], braces(text[closed + 1 :])
    return [heads + middle + tail for part in parts for middle in braces(part) for tail in tails]


def _first(text: str, wanted: str) -> int:
    escaped = False
    for at, character in enumerate(text):
        if character == wanted and not escaped:
            return at
        escaped = character == "\\" and not escaped
    return -1


def _closing(text: str, opened: int) -> tuple[int, list[int]]:
    cuts: list[int] = []
    depth, at = 0, opened
    while at < len(text):
        match text[at]:
            case "\\":
                at += 1
            case "{":
                depth += 1
            case "}" if depth == 1:
                return at, cuts
            case "}":
                depth -= 1
            case "," if depth == 1:
                cuts.append(at)
        at += 1
    raise BadGlob(f"the brace at {opened + 1} is not closed")


def _matches(path: str, segments: list[str], *, is_folder: bool) -> Iterator[str]:
    """Files that the segments find below `path`, or the path itself, where no segment is left; one may come twice."""
    if not segments:
        yield from (e.path for e in _visible(path) if not e.is_dir()) if is_folder else (path,)
        return
    head, rest = segments[0], segments[1:]
    if head == "**":
        yield from _matches(path, rest, is_folder=True)
        for entry in _visible(path):
            if entry.is_dir(follow_symlinks=False):
                yield from _matches(entry.path, segments, is_folder=True)
    elif not _SPECIAL.search(head):
        below = f"{path}/{head}"
        if _exists(below, as_folder=bool(rest)):
            yield from _matches(below, rest, is_folder=os.path.isdir(below))
    else:
        matches = re.compile(translate(head), re.DOTALL).fullmatch
        for entry in _visible(path):
            if matches(entry.name) and ((is_folder := _is_folder(entry)) or not rest):
                yield from _matches(entry.path, rest, is_folder=is_folder)


def _exists(path: str, as_folder: bool) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            raise
        return False
    return stat.S_ISDIR(mode) or not as_folder


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISDIR(entry.stat().st_mode) if entry.is_symlink() else entry.is_dir()


def _visible(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(f"{folder}/") as entries:
        yield from (e for e in entries if not _is_hidden(e.name))


def translate(segment: str) -> str:
    """One folder or file name of a glob, without braces, as a regular expression."""
    parts: list[str] = []
    at = 0
    while at < len(segment):
        character = segment[at]
        match character:
            case "*":
                parts.append(".*")
            case "?":
                parts.append(".")
            case "\\" if at + 1 < len(segment):
                at += 1
                parts.append(re.escape(segment[at]))
            case "[":
                text, at = _class(segment, at)
                parts.append(text)
            case _:
                parts.append(re.escape(character))
        at += 1
    return "".join(parts)


def _class(segment: str, opened: int) -> tuple[str, int]:
    start = opened + 1 + (segment[opened + 1 : opened + 2] in ("^", "!"))
    closed = segment.find("]", start + 1)
    if closed < 0:
        raise BadGlob(f"the bracket of {segment!r} is not closed")
    inside = re.sub(r"([\[\]^&~|])", r"\\\1", segment[start:closed])
    text = f"[{'^' if start > opened + 1 else ''}{inside}]"
    try:
        re.compile(text)
    except re.error as e:
        raise BadGlob(f"{segment!r}: {e}") from e
    return text, closed
