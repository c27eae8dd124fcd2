"""Messages for Python code that cannot be parsed: a sentence and a remedy for the mistakes that
people make.

Python's own explanation is quoted for the others.
"""

from __future__ import annotations

import re
from typing import Final

# Pattern of what Python says -> our message and hint; `{0}` is what the pattern found.
_WORDS: Final = (
    (r"'(.)' was never closed", "'{0}' is never closed", "close it, or look at the line before"),
    (r"unmatched '(.)'", "'{0}' closes nothing", "remove it"),
    (
        r"closing parenthesis '(.)' does not match",
        "'{0}' closes another bracket",
        "close the inner bracket first",
    ),
    (r"expected '(.+?)'", "'{0}' is missing here", "add it"),
    (
        r"expected an indented block after (.+?) on line",
        "nothing is indented below {0}",
        "indent its body, or write pass",
    ),
    (
        r"unexpected indent",
        "this line is indented more than the one before",
        "remove spaces at its start",
    ),
    (
        r"unindent does not match",
        "no block has this indentation",
        "use the same number of spaces for each level",
    ),
    (r"inconsistent use of tabs", "tabs and spaces are mixed", "indent with spaces"),
    (
        r"unterminated (.*?)string literal",
        "a quote is never closed",
        "close it on its line, or use three quotes",
    ),
    (r"Perhaps you forgot a comma", "a comma may be missing here", "separate values with commas"),
    (
        r"cannot assign to (.+?)(?: here)?\.",
        "{0} is assigned to",
        "== compares, = assigns to a name",
    ),
    (r"'(return|await|yield)' outside", "{0} outside of a function", "move it into one"),
    (
        r"non-default argument follows",
        "an argument without a default follows one with",
        "give it a default, or move it",
    ),
    (r"non-printable character (\S+)", "the character {0} is none of Python's", "remove it"),
    (
        r"invalid character '(.+?)'",
        "the character {0} is none of Python's",
        "was it copied from a page? write \" or '",
    ),
    (r"duplicate argument '(.+?)'", "two arguments are called {0}", "rename one"),
    (
        r"^invalid syntax",
        "Python does not expect this here",
        "look for a missing bracket, comma or colon before it",
    ),
)


def syntax_words(complaint: str) -> tuple[str, str]:
    """A message and a hint for what Python says about code that it cannot parse."""
    for pattern, message, hint in _WORDS:
        if match := re.search(pattern, complaint):
            return message.format(*match.groups()), hint
    return (
        f"the code is no Python: Python says {complaint!r}"
        if complaint
        else "the code is no Python",
        "see the place",
    )
