"""Messages for a text that is no YAML, in our words: those of the parsers name their own states.

Both parsers have a wording of their own for each mistake.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class YamlFault(NamedTuple):
    """The fault of a text that is no YAML. `at_opening`: the place is where the bracket or quote
    opens, not where the text ends."""

    message: str
    hint: str
    at_opening: bool = False


_UNCLOSED_LIST = YamlFault(
    "'[' is never closed", "close it with ], or put a text that begins with [ in quotes", True
)
_UNCLOSED_MAPPING = YamlFault(
    "'{' is never closed", "close it with }, or put a text that begins with { in quotes", True
)
_NO_COMMA = "',' is missing between two entries, or a bracket is not closed"
_INDENT = YamlFault(
    "this line is indented in another way than those around it", "check the indentation"
)

# The first whose words are all in what the parser says.
_FAULTS: Final = (
    (("\\t",), YamlFault("a tab where spaces are expected", "indent with spaces, not tabs")),
    (
        ("tab character",),
        YamlFault("a tab where spaces are expected", "indent with spaces, not tabs"),
    ),
    (
        ("cannot start any token",),
        YamlFault("no text begins with this character", "put the text in quotes"),
    ),
    (
        ("mapping values are not allowed",),
        YamlFault("': ' cannot stand here", "put a text that holds ': ' in quotes"),
    ),
    (
        ("expected ':'",),
        YamlFault(
            "a line without ':'", "write key: value, or indent it as part of the value before"
        ),
    ),
    (
        ("entries are not allowed",),
        YamlFault("'- ' cannot stand here", "begin the list on a line of its own"),
    ),
    (
        ("mapping keys are not allowed",),
        YamlFault("'?' cannot stand here", "put the text in quotes"),
    ),
    (
        ("quoted scalar", "end of stream"),
        YamlFault("a quote is never closed", "close it on its line", True),
    ),
    (
        ("quoted scalar", "document separator"),
        YamlFault("a quote is never closed", "close it on its line", True),
    ),
    (
        ("unknown escape",),
        YamlFault("no such escape", "use single quotes, or double the backslash"),
    ),
    (
        ("hexadecimal",),
        YamlFault("an escape without its digits", "use single quotes, or double the backslash"),
    ),
    (
        ("hexdecimal",),
        YamlFault("an escape without its digits", "use single quotes, or double the backslash"),
    ),
    (("flow sequence", "stream end"), _UNCLOSED_LIST),
    (("flow mapping", "stream end"), _UNCLOSED_MAPPING),
    (("',' or ']'",), YamlFault(_NO_COMMA, "write [one, two]")),
    (("',' or '}'",), YamlFault(_NO_COMMA, "write {key: value, other: value}")),
    (("expected <block end>",), _INDENT),
    (("did not find expected key",), _INDENT),
    (("expected '-' indicator",), _INDENT),
    (
        ("node content", "stream end"),
        YamlFault("the text ends where a value is expected", "close the bracket"),
    ),
    (
        ("node content",),
        YamlFault("a value is missing here", "write the value; put texts in quotes if in doubt"),
    ),
    (("undefined alias",), YamlFault("an alias of nothing", "write the value out")),
    (
        ("alphabetic or numeric",),
        YamlFault("& and * have a meaning of their own", "put the text in quotes"),
    ),
    (("comment or",), YamlFault("text behind | or >", "begin the text on the next line, indented")),
    (
        ("indentation ind",),
        YamlFault("text behind | or >", "begin the text on the next line, indented"),
    ),
    (
        ("document start",),
        YamlFault("this is not part of the mapping before", "check the indentation"),
    ),
    (("directive",), YamlFault("a line that begins with %", "put the text in quotes")),
    (("tag",), YamlFault("! has a meaning of its own", "put the text in quotes")),
)
_OTHER: Final = YamlFault("the text is no YAML here", "check the indentation, quotes and brackets")


def yaml_fault(context: str, problem: str) -> YamlFault:
    """The fault behind what a parser says it was doing, and found."""
    fault_text = f"{context}: {problem}"
    return next(
        (fault for needles, fault in _FAULTS if all(n in fault_text for n in needles)), _OTHER
    )
