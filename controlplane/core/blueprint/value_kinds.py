"""Kinds of values: how each is read from a node, and how JSON Schema describes it. Both in one
place, for no drift."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from controlplane.core.blueprint.model import Use
from controlplane.core.blueprint.problems import (
    BlueprintRefused,
    Code,
    Problems,
    ProblemsOfUse,
    shown,
)
from controlplane.core.blueprint.text_places import ParamValue, Position, TextPlace
from controlplane.core.blueprint.yaml_nodes import (
    BrokenNode,
    Entries,
    Items,
    Node,
    Scalar,
    YamlDocument,
    text_place,
)
from controlplane.core.schema import ddl

T = TypeVar("T")
Word = TypeVar("Word", bound=str)
T_co = TypeVar("T_co", covariant=True)
JsonSchema: TypeAlias = dict[str, Any]  # its keys are those of JSON Schema

_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = "[0-9]{1,6}[smhd]"  # as JSON Schema has it


def seconds(text: str) -> float | None:
    """The seconds of a duration such as 30s, 5m, 1h or 1d; None where it is none, or no time at
    all."""
    match = _DURATION.fullmatch(text)
    if match is None or int(match[1]) == 0:
        return None
    return int(match[1]) * _SECONDS[match[2]]


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of reading one blueprint: the document, the files sent along, the problems so far,
    and the present component.

    `uses`: the components that take parts from elsewhere in the document.
    """

    document: YamlDocument
    files: Mapping[str, str]
    problems: Problems
    component: str = ""
    uses: Mapping[str, Use] = field(default_factory=dict)

    def within(self, component: str) -> Reading:
        """For one component: its problems in parts from elsewhere name it."""
        use = self.uses.get(component)
        problems = self.problems if use is None else ProblemsOfUse(self.problems, use)
        return replace(self, component=component, problems=problems)

    def refuse(
        self, at: Node | Position, code: Code, message: str, hint: str = ""
    ) -> BlueprintRefused:
        return self.problems.refuse(
            at if isinstance(at, Position) else at.place, code, message, hint
        )


class Kind(Protocol[T_co]):
    """A kind of value. `read` raises Refused once the problem is recorded."""

    def read(self, node: Node, reading: Reading) -> T_co: ...

    def schema(self) -> JsonSchema: ...


class Fault(NamedTuple):
    """What a check has against a text."""

    code: Code
    message: str
    hint: str = ""


Check: TypeAlias = Callable[[str], Fault | None]

_SECRET = re.compile(r"secret://[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*")


def secret_fault(text: str) -> Fault | None:
    """The fault of a reference to a secret; None if it is one."""
    if _SECRET.fullmatch(text):
        return None
    return Fault(
        "invalid-value",
        f"{shown(text)} names no secret",
        "secret://name/key, of letters, digits, _ . -",
    )


def described(node: Node) -> str:
    match node:
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool()):
            return f"the truth value {node.text}"
        case Scalar(value=int() | float()):
            return f"the number {shown(node.text)[1:-1]}"
        case Scalar():
            return f"the text {shown(node.text)}"
        case Items():
            return "a list"
        case _:
            return "a mapping"


def wrong_type(node: Node, expected: str, reading: Reading, hint: str = "") -> BlueprintRefused:
    if isinstance(node, BrokenNode):
        return BlueprintRefused()
    return reading.refuse(node, "wrong-type", f"expected {expected}, found {described(node)}", hint)


def text_of(node: Node, reading: Reading, expected: str = "a text") -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    hint = "put it in quotes" if isinstance(node, Scalar) and node.value is not None else ""
    raise wrong_type(node, expected, reading, hint)


def entries_of(
    node: Node, reading: Reading, expected: str = "a mapping of keys to values", hint: str = ""
) -> Entries:
    if isinstance(node, Entries):
        return node
    raise wrong_type(node, expected, reading, hint)


@dataclass(frozen=True, slots=True)
class Text:
    """A text that passes every check; `pattern` is for editors only."""

    checks: tuple[Check, ...] = ()
    pattern: str = ""
    expected: str = "a text"

    def read(self, node: Node, reading: Reading) -> str:
        text = text_of(node, reading, self.expected)
        for check in self.checks:
            if fault := check(text):
                raise reading.refuse(node, *fault)
        return text

    def schema(self) -> JsonSchema:
        return {"type": "string", **({"pattern": self.pattern} if self.pattern else {})}


class Passage(NamedTuple):
    """A text of code with its place."""

    text: str
    place: TextPlace


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text of SQL or Python, in which errors are to be found again."""

    language: str

    def read(self, node: Node, reading: Reading) -> Passage:
        text = text_of(node, reading, f"a text of {self.language}")
        if not text.strip():
            raise reading.refuse(node, "invalid-value", f"the {self.language} is empty")
        assert isinstance(node, Scalar)
        return Passage(text, text_place(node, reading.document))

    def schema(self) -> JsonSchema:
        return {"type": "string", "minLength": 1}


def report_columns(node: Scalar, document: YamlDocument, problems: Problems) -> bool:
    """Report each wrong word of columns and types. True if there is one."""
    faults = ddl.refused(node.text, ddl.ddl_faults(node.text))
    place = text_place(node, document)
    for line, column, fault in ddl.lines_and_columns(node.text, faults):
        problems.add(place.at(line, column), "invalid-schema", fault.message, fault.hint)
    return bool(faults)


@dataclass(frozen=True, slots=True)
class ColumnsText:
    """Columns and types as DDL; each wrong word is reported at its place."""

    def read(self, node: Node, reading: Reading) -> str:
        text = text_of(node, reading, "columns and types as text")
        assert isinstance(node, Scalar)
        if report_columns(node, reading.document, reading.problems):
            raise BlueprintRefused
        return text

    def schema(self) -> JsonSchema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class Choice(Generic[Word]):
    """One of a few words; those of later releases are known but refused. `hints`: what to write in
    place of other words."""

    now: tuple[Word, ...]
    later: tuple[str, ...] = ()
    hints: tuple[tuple[str, str], ...] = ()

    def read(self, node: Node, reading: Reading) -> Word:
        text = text_of(node, reading, self._expected())
        for word in self.now:
            if text == word:
                return word
        if text in self.later:
            raise reading.refuse(
                node,
                "not-supported",
                f"{text} comes with a later release",
                f"use {self._expected()}",
            )
        hint = dict(self.hints).get(text) or reading.problems.guess(text, self.now)
        raise reading.refuse(
            node, "invalid-value", f"expected {self._expected()}, found {shown(text)}", hint
        )

    def _expected(self) -> str:
        return " or ".join(filter(None, (", ".join(self.now[:-1]), self.now[-1])))

    def schema(self) -> JsonSchema:
        return {"enum": list(self.now)}


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false, in YAML 1.2's words only."""

    def read(self, node: Node, reading: Reading) -> bool:
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        raise wrong_type(
            node, "true or false", reading, "yes, no, on and off are texts in YAML 1.2"
        )

    def schema(self) -> JsonSchema:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer in a closed range."""

    least: int
    most: int

    def read(self, node: Node, reading: Reading) -> int:
        expected = f"a whole number from {self.least} to {self.most}"
        if (
            not isinstance(node, Scalar)
            or not isinstance(node.value, int)
            or isinstance(node.value, bool)
        ):
            raise wrong_type(node, expected, reading)
        if not self.least <= node.value <= self.most:
            raise reading.refuse(node, "invalid-value", f"expected {expected}, found {node.text}")
        return node.value

    def schema(self) -> JsonSchema:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Fraction:
    """A number from 0 to 1."""

    def read(self, node: Node, reading: Reading) -> float:
        if not isinstance(node, Scalar) or isinstance(node.value, bool | str | None):
            raise wrong_type(node, "a number from 0 to 1", reading)
        if not 0 <= node.value <= 1:
            raise reading.refuse(
                node, "invalid-value", f"expected a number from 0 to 1, found {node.text}"
            )
        return float(node.value)

    def schema(self) -> JsonSchema:
        return {"type": "number", "minimum": 0, "maximum": 1}


@dataclass(frozen=True, slots=True)
class ListOf(Generic[T]):
    """A list without repetitions."""

    item: Kind[T]

    def read(self, node: Node, reading: Reading) -> tuple[T, ...]:
        if not isinstance(node, Items):
            raise wrong_type(
                node, "a list", reading, "write [one, two], or a line with '- ' for each"
            )
        values: dict[T, None] = {}
        for item in node.items:
            try:
                value = self.item.read(item, reading)
            except BlueprintRefused:
                continue
            if value in values:
                reading.problems.add(
                    item.place, "invalid-value", f"{shown(str(value))} is listed twice"
                )
            values[value] = None
        return tuple(values)

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": self.item.schema(), "uniqueItems": True}


@dataclass(frozen=True, slots=True)
class Options:
    """Settings passed to Spark's reader or writer: texts in the end, sorted by name. `may_refer`:
    to secrets. `checks`: of the names."""

    may_refer: bool = False
    checks: tuple[Check, ...] = ()

    def read(self, node: Node, reading: Reading) -> tuple[tuple[str, str], ...]:
        entries = entries_of(node, reading, "a mapping of option names to values").entries
        for key, _ in entries:
            if fault := next(filter(None, (check(key.text) for check in self.checks)), None):
                reading.refuse(key, *fault)
        options = (
            (key.text, _option(value, reading, may_refer=self.may_refer)) for key, value in entries
        )
        return tuple(sorted((name, text) for name, text in options if text is not None))

    def schema(self) -> JsonSchema:
        return {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def _option(node: Node, reading: Reading, *, may_refer: bool) -> str | None:
    if not isinstance(node, Scalar) or (node.value is None):
        if not isinstance(node, BrokenNode):
            wrong_type(
                node, "a text, a number, true or false", reading, 'write "" for an empty text'
            )
        return None
    if node.text.startswith("secret://"):
        if not may_refer:
            reading.refuse(
                node, "not-supported", "this connector takes no references to secrets yet"
            )
        elif fault := secret_fault(node.text):
            reading.refuse(node, *fault)
    return str(node.value).lower() if isinstance(node.value, bool) else node.text


@dataclass(frozen=True, slots=True)
class Params:
    """Constants that a transform is called with, sorted by name."""

    name: Text

    def read(self, node: Node, reading: Reading) -> tuple[tuple[str, ParamValue], ...]:
        params: dict[str, ParamValue] = {}
        for key, value in entries_of(
            node, reading, "a mapping of parameter names to values"
        ).entries:
            try:
                params[self.name.read(as_text(key), reading)] = _param(value, reading)
            except BlueprintRefused:
                continue
        return tuple(sorted(params.items()))

    def schema(self) -> JsonSchema:
        values = {"type": ["string", "number", "boolean", "null"]}
        return {
            "type": "object",
            "propertyNames": self.name.schema(),
            "additionalProperties": values,
        }


def _param(node: Node, reading: Reading) -> ParamValue:
    if not isinstance(node, Scalar):
        raise wrong_type(node, "a text, a number, true, false or null", reading)
    if isinstance(node.value, float) and not isfinite(node.value):
        raise reading.refuse(node, "invalid-value", f"{node.text} is no finite number")
    return node.value


def as_text(key: Scalar) -> Scalar:
    """A key is a text even where it looks like a number."""
    return Scalar(key.place, key.text, key.text, key.style, key.start, key.end)
