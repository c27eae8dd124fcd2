"""Globs in locations: where their fixed part ends, and which are too large."""

from __future__ import annotations

GLOB_CHARACTERS = "*?[{\\"
MOST_BRACES = 100  # of one glob
MOST_ALTERNATIVES = 1_000  # paths that they may stand for


def braces_fault(glob: str) -> str | None:
    """Why a glob stands for more paths than can be meant; None if it does not."""
    if (braces := glob.count("{")) > MOST_BRACES:
        return f"it has {braces} braces, more than {MOST_BRACES}"
    if (count := _alternatives(glob)) > MOST_ALTERNATIVES:
        return f"its braces stand for {count} paths, more than {MOST_ALTERNATIVES}"
    return None


def _alternatives(glob: str) -> int:
    """How many paths the braces of a glob stand for. Nothing is expanded; a brace that is not
    closed counts for one."""
    # Of the sequence that is being read, and of the alternatives before it, by depth
    counts, sums = [1], [0]
    at = 0
    while at < len(glob):
        match glob[at]:
            case "\\":
                at += 1
            case "{":
                counts.append(1)
                sums.append(0)
            case "," if len(counts) > 1:
                sums[-1] += counts[-1]
                counts[-1] = 1
            case "}" if len(counts) > 1:
                inner = sums.pop() + counts.pop()
                counts[-1] *= inner
        at += 1
    return counts[0]


def fixed_folder(path_glob: str) -> str:
    """The folders before the first glob character, with the last `/`; all but the file name where
    there is none.

    A path that the glob finds is `fixed_folder(glob) + name`: `data/*.csv` gives `data/`, `*.csv`
    the empty text.
    """
    at = min((i for i in map(path_glob.find, GLOB_CHARACTERS) if i >= 0), default=len(path_glob))
    return path_glob[: path_glob.rfind("/", 0, at) + 1]
