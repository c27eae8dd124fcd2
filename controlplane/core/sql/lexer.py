"""Text to tokens, by the rules of Spark's own lexer.

Identity rests on these tokens, so they are ours: a parser library's tokens change with its
releases, and read some texts in another way than Spark does (`'it''s'` is not `'it' 's'`; a hint
inside a comment does not nest).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from controlplane.core.sql.sql_problem import problem_at

Kind: TypeAlias = Literal["word", "quoted", "string", "number", "symbol"]

_SPACE: Final = " \\t\\n\\f\\r\\x0b\\xa0\\u1680\\u2000-\\u200a\\u2028\\u202f\\u205f\\u3000"
_STRING: Final = r"""(?:[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_DOTTED: Final = r"(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[fFdD])?(?![A-Za-z0-9_])"
_TOKEN: Final = re.compile(
    rf"""
    (?P<space>[{_SPACE}]+ | --(?:\\\n|[^\r\n])*)
  | (?P<comment>/\*(?!\+))
  | (?P<string>{_STRING}+)                          # literals that touch are one token: '' is an escaped quote
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<uri>[^\W\d_]+://[\w/\-.?=&\#%]+)
  | (?P<number>{_DOTTED} | \d+[eE][+-]\d+(?:[bB][dD]|[fFdD])?)
  | (?P<word>\w+)
  | (?P<symbol><=>|>>>|/\*\+|\*/|\|\||\|>|<>|!=|==|<=|>=|!<|!>|<<|>>|->|=>|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE: Final = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True, slots=True)
class SqlToken:
    """`text` is the source slice [start, end); `upper` its upper case, of a word in ASCII alone."""

    kind: Kind
    text: str
    start: int
    end: int
    upper: str = ""

    @property
    def name(self) -> str:
        """What an identifier names, without its backquotes."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


def tokenize(text: str) -> tuple[SqlToken, ...]:
    """All tokens but comments and space. Raises SqlProblem for a literal or comment without an
    end."""
    return tuple(_tokens(text))


def _tokens(text: str) -> Iterator[SqlToken]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None  # the last alternative takes any character
        group = match.lastgroup or ""
        at = _comment_end(text, at) if group == "comment" else match.end()
        if group not in ("space", "comment"):
            yield _token(text, group, match.start(), match.end())


def _token(text: str, group: str, start: int, end: int) -> SqlToken:
    slice_ = text[start:end]
    if group == "symbol" and slice_ in "'\"`":
        raise problem_at(
            text, start, "invalid-sql", f"{slice_} opens a literal that is never closed"
        )
    if group == "word" and slice_[0].isdigit():
        group = "number" if _is_number(slice_) else group
    kind = "word" if group == "uri" else cast("Kind", group)
    return SqlToken(
        kind, slice_, start, end, slice_.upper() if kind == "word" and slice_.isascii() else ""
    )


def _is_number(word: str) -> bool:
    return (
        re.fullmatch(r"\d+(?:[lLsSyYfFdD]|[bB][dD]|[eE]\d+(?:[bB][dD]|[fFdD])?)?", word) is not None
    )


def _comment_end(text: str, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise problem_at(text, start, "invalid-sql", "a comment is never closed")


def blank(text: str, tokens: tuple[SqlToken, ...]) -> str:
    """The text with all that is not in `tokens` as spaces: offsets and lines stay, comments go."""
    out = ["\n" if c == "\n" else " " for c in text]
    for token in tokens:
        out[token.start : token.end] = token.text
    return "".join(out)
