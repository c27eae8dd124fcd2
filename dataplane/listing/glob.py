r"""Finding files by glob, by the rules that Spark and Hadoop have: `*`, `?`, `[a-z]`, `[^a]`,
`{a,b}`, `\` before any of them; and `**` as a folder of a glob stands for any number of folders.

A name that starts with `_` or `.` is hidden: no glob finds it, only its full name does. A folder
that is found stands for the visible files directly in it. Links are followed, but not by `**`, and
not to a folder that they lie in. A link that leads nowhere is an error, wherever in a path it
stands: what lies behind it is not known.

All alternatives of a glob are looked for together, so that a folder is read once, however many
parts of the glob could match there. A name is matched without going back.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from dataplane.contract.globs import braces_fault, fixed_folder

_SPECIAL = re.compile(r"[*?\[{\\]")


class BadGlob(ValueError):
    """A bracket that is not closed, a range that is backwards, or more alternatives than a person
    means."""


def base_folder(pattern: str) -> str:
    """The folder that names are relative to; with its last slash."""
    return fixed_folder(pattern.partition("{")[0] + "*" if "{" in pattern else pattern)


def find(pattern: str, folder: str, count: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Paths of all files that `pattern` (which starts with the existing folder `folder`) finds, in
    no order.

    No path comes twice. OSError if anything cannot be looked at; FileNotFoundError if the folder,
    or a file without a glob, is missing. Folders are read while the paths are taken; `count` is
    called for each entry that is looked at, and may raise.
    """
    if not stat.S_ISDIR(os.stat(folder).st_mode):
        raise NotADirectoryError(f"not a folder: {folder}")
    rest = pattern.removeprefix(folder)
    if not _SPECIAL.search(rest):
        os.stat(pattern)
    steps = _steps(rest)
    return _FolderWalk(folder.rstrip("/"), count).files(steps)


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a glob finds a file by its name, where there are no folders but in names: as `find`
    does, of which `pattern` is the part below the folder."""
    first = _steps(pattern)

    def is_found(name: str) -> bool:
        *folders, last = name.split("/")
        steps = first
        for folder in folders:
            steps = _below(steps, folder, is_folder=True)
            if not steps:
                return False
        ends_here = any(step.is_end for step in _here(steps))
        if ends_here and not _is_hidden(last):
            return True
        return any(step.is_end for step in _below(steps, last, is_folder=False))

    return is_found


def leads_on(pattern: str) -> Callable[[str], bool]:
    """Whether a folder of this name may hold files that a glob finds. Both as of `matcher`."""
    first = _steps(pattern)

    def may_hold(name: str) -> bool:
        steps = first
        for folder in name.split("/"):
            steps = _below(steps, folder, is_folder=True)
        return bool(steps)

    return may_hold


def folders(pattern: str, folder: str) -> Iterator[str]:
    """`folder` and the folders below it whose names decide what `find` finds; `pattern` is the part
    below it. Links are not followed. Raises OSError."""
    waiting = [(folder, _steps(pattern))]
    while waiting:
        path, steps = waiting.pop()
        yield path
        with os.scandir(path) as entries:
            for entry in entries:
                below = _below(steps, entry.name, is_folder=True)
                if below and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, below))


# --- parts of a glob ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GlobStep:
    """A place in a glob: the next name to match, or the end. Equal places of one glob are one
    object."""

    literal: str = ""  # the name that is wanted, if it is one
    matches: Callable[[str], object] | None = None  # whether a name is wanted, else
    is_any: bool = False  # `**`: any number of folders
    after: GlobStep | None = None

    @property
    def is_end(self) -> bool:
        return self.after is None


_END = GlobStep()


def _steps(pattern: str) -> frozenset[GlobStep]:
    """Where a glob begins, one place for each of its alternatives. Those that end alike share their
    ends."""
    steps: dict[tuple[str, int], GlobStep] = {}
    return frozenset(_chain(text, steps) for text in braces(pattern))


def _chain(text: str, steps: dict[tuple[str, int], GlobStep]) -> GlobStep:
    step = _END
    for segment in reversed([s for s in text.split("/") if s]):
        if segment == "**" and step.is_any:
            continue  # any number of folders twice is any number of folders
        key = (segment, id(step))
        if key not in steps:
            steps[key] = _step(segment, step)
        step = steps[key]
    return step


def _step(segment: str, after: GlobStep) -> GlobStep:
    if segment == "**":
        return GlobStep(is_any=True, after=after)
    if not _SPECIAL.search(segment):
        return GlobStep(literal=segment, after=after)
    return GlobStep(matches=re.compile(translate(segment), re.DOTALL).fullmatch, after=after)


def _here(steps: Iterable[GlobStep]) -> set[GlobStep]:
    """The places that a folder stands for: `**` may stand for no folder at all."""
    reached = set(steps)
    reached.update(step.after for step in steps if step.is_any and step.after is not None)
    return reached


def _below(steps: Iterable[GlobStep], name: str, *, is_folder: bool) -> frozenset[GlobStep]:
    """The places that a file or folder of this name stands for, in a folder that stands for
    `steps`."""
    reached: set[GlobStep] = set()
    is_visible = not _is_hidden(name)
    for step in _here(steps):
        if step.after is None:
            continue
        if step.is_any:
            if is_folder and is_visible:
                reached.add(step)
        elif step.literal == name or (
            step.matches is not None and is_visible and step.matches(name)
        ):
            reached.add(step.after)
    return frozenset(reached)


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


# --- folders --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _FolderWalk:
    """One look at the folders below `top`. `visited` counts the folders that were read."""

    top: str
    count: Callable[[], None] = lambda: None
    visited: int = 0
    _waiting: list[tuple[str, frozenset[GlobStep]]] = field(default_factory=list)

    def files(self, steps: frozenset[GlobStep]) -> Iterator[str]:
        self._waiting.append((self.top, steps))
        while self._waiting:
            yield from self._folder(*self._waiting.pop())

    def _folder(self, path: str, steps: frozenset[GlobStep]) -> Iterator[str]:
        here = _here(steps)
        names = {step.literal for step in here if step.literal}
        if any(step.is_end or step.is_any or step.matches is not None for step in here):
            self.visited += 1
            for entry in _visible(path):
                self.count()
                names.discard(entry.name)
                yield from self._entry(entry, here)
        # Names that are written out may be hidden, and need no look at the folder
        for name in names:
            below = f"{path}/{name}"
            after = frozenset(
                step.after for step in here if step.literal == name and step.after is not None
            )
            mode = _mode(below)
            if mode is not None:
                yield from self._matching(below, after, is_folder=stat.S_ISDIR(mode))

    def _entry(self, entry: os.DirEntry[str], here: set[GlobStep]) -> Iterator[str]:
        """A visible entry of a folder. A link to nothing raises OSError where the pattern matches
        its name."""
        named = frozenset(
            step.after
            for step in here
            if step.after is not None
            and not step.is_any
            and (
                step.literal == entry.name
                or (step.matches is not None and step.matches(entry.name))
            )
        )
        through = frozenset(step for step in here if step.is_any)
        if named:
            is_folder = _is_folder(entry)
        elif through and entry.is_dir(follow_symlinks=False):
            is_folder = True
        else:
            is_folder = entry.is_dir()  # False for a link to nothing: reading it will fail
        if is_folder:
            deeper = named if entry.is_symlink() else named | through
            if deeper and not self._leads_back(entry):
                self._waiting.append((entry.path, deeper))
        elif any(step.is_end for step in (*here, *named)):
            yield entry.path

    def _matching(self, path: str, steps: frozenset[GlobStep], *, is_folder: bool) -> Iterator[str]:
        if is_folder:
            self._waiting.append((path, steps))
        elif any(step.is_end for step in steps):
            yield path

    def _leads_back(self, entry: os.DirEntry[str]) -> bool:
        """A link to a folder that it lies in: all behind it is found without it."""
        if not entry.is_symlink():
            return False
        target, path = _identity(entry.path), os.path.dirname(entry.path)
        while len(path) >= len(self.top):
            if _identity(path or "/") == target:
                return True
            if not path:
                break
            path = path.rpartition("/")[0]
        return False


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _mode(path: str) -> int | None:
    """None if there is nothing of this name. A link to nothing is an error."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(path):
            raise
        return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISDIR(entry.stat().st_mode) if entry.is_symlink() else entry.is_dir()


def _visible(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(f"{folder}/") as entries:
        yield from (e for e in entries if not _is_hidden(e.name))


# --- names ----------------------------------------------------------------------------------------


def braces(text: str) -> list[str]:
    """All texts that `{a,b}` stands for; braces may be nested, and alternatives may hold slashes.
    BadGlob for too many of them, before any is made."""
    if fault := braces_fault(text):
        raise BadGlob(fault)
    return _expanded(text)


def _expanded(text: str) -> list[str]:
    opened = _first(text, "{")
    if opened < 0:
        return [text]
    closed, cuts = _closing(text, opened)
    parts = [text[a + 1 : b] for a, b in zip([opened, *cuts], [*cuts, closed], strict=True)]
    heads, log_tail = text[:opened], _expanded(text[closed + 1 :])
    return [
        heads + middle + tail for part in parts for middle in _expanded(part) for tail in log_tail
    ]


def _first(text: str, searched: str) -> int:
    escaped = False
    for at, character in enumerate(text):
        if character == searched and not escaped:
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


def translate(segment: str) -> str:
    """One folder or file name of a glob, without braces, as a regular expression that never goes
    back.

    Between two `*` the first place where the text fits is as good as any later one, so that each is
    an atomic group (as in CPython's `fnmatch`).
    """
    chunks = _chunks(segment)
    first, *others = chunks
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>.*?{chunk})" for chunk in middle if chunk) + f".*{last}"


def _chunks(segment: str) -> list[str]:
    """The parts before, between and after the `*`, each of a fixed length."""
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(segment):
        character = segment[at]
        match character:
            case "*":
                parts.append([])
            case "?":
                parts[-1].append(".")
            case "\\" if at + 1 < len(segment):
                at += 1
                parts[-1].append(re.escape(segment[at]))
            case "[":
                text, at = _class(segment, at)
                parts[-1].append(text)
            case _:
                parts[-1].append(re.escape(character))
        at += 1
    return ["".join(part) for part in parts]


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
