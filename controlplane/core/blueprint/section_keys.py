"""Sections: mappings with a fixed set of keys. One table of keys drives reading, suggestions and
JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from controlplane.core.blueprint import credentials
from controlplane.core.blueprint.problems import BlueprintRefused, shown
from controlplane.core.blueprint.text_places import Position
from controlplane.core.blueprint.value_kinds import JsonSchema, Kind, Reading, entries_of
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Items, Node, Scalar
from controlplane.core.model.json_values import JsonValue

FIRST = "0.1"  # the first version of the language

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Key(Generic[T_co]):
    """One key of a section. `default` is its value where it is absent.

    `example`: a value as JSON, where the kind of value suggests none. `written`: the default as a
    blueprint would have it, where that differs. `since`: the version that brought the key.
    """

    name: str
    kind: Kind[T_co]
    default: T_co
    doc: str = ""
    is_required: bool = False
    example: JsonValue = None
    written: str = ""
    since: str = FIRST

    def schema(self) -> JsonSchema:
        described = self.kind.schema()
        if self.doc:
            described["description"] = self.doc
        if self._has_plain_default(described):
            described["default"] = self.written or self.default
        elif self.written:
            described["default"] = self.written
        if self.example is not None:
            described["examples"] = [self.example]
        if self.since != FIRST:
            described["x-since"] = self.since
        return described

    def _has_plain_default(self, schema: JsonSchema) -> bool:
        is_plain = isinstance(self.default, bool | int | float | str) and self.default != ""
        return is_plain and not self.is_required and schema.get("type") != "object"


@dataclass(frozen=True, slots=True)
class Section:
    """The keys of one mapping. `later`: keys that later releases bring. `one_of`: exactly one of
    these is to be given.

    `first`: the key without which the others cannot be judged. `may_hold_secrets`: users put
    credentials here.
    """

    keys: tuple[Key[object], ...]
    later: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    first: str = ""
    may_hold_secrets: bool = False

    def read(self, node: Node, reading: Reading) -> Fields:
        """Every key that can be read. Raises Refused where none can."""
        bodies = " or ".join(f"{{{name}: ...}}" for name in self.one_of)
        entries = entries_of(node, reading, hint=f"write {bodies}" if bodies else "")
        if self.may_hold_secrets:
            credentials.report(entries, reading.problems)
        fields = Fields(node.place, {key.text: (key, value) for key, value in entries.entries})
        self._report_keys(entries, reading)
        for key in sorted(self.keys, key=lambda k: k.name != self.first):
            self._read_key(key, fields, reading)
        return fields

    def _read_key(self, key: Key[object], fields: Fields, reading: Reading) -> None:
        if key.name not in fields.nodes:
            if key.is_required:
                reading.problems.add(
                    fields.place, "missing-key", f"the key {key.name!r} is missing", key.doc
                )
            return
        try:
            fields.values[key.name] = key.kind.read(fields.nodes[key.name][1], reading)
        except BlueprintRefused:
            if key.name == self.first:
                raise

    def _report_keys(self, entries: Entries, reading: Reading) -> None:
        if self._is_later(entries):
            return
        names = {k.name for k in self.keys}
        for key, _ in entries.entries:
            if key.text in self.later:
                message = f"{key.text!r} comes with a later release"
                reading.problems.add(key.place, "not-supported", message, "remove it for now")
            elif key.text not in names:
                hint = (
                    self._hint_of_body(key.text, entries)
                    or reading.problems.guess(key.text, sorted(names))
                    or f"known here: {', '.join(sorted(names))}"
                )
                reading.problems.add(
                    key.place, "unknown-key", f"there is no key {shown(key.text)} here", hint
                )
        self._report_choice(entries, reading)

    def _hint_of_body(self, word: str, entries: Entries) -> str:
        """Where a key stands beside the body that has it: `refresh` beside `read`."""
        for key in self.keys:
            is_body = key.name in self.one_of and entries.get(key.name) is not None
            if is_body and word in _property_names(key.kind.schema()):
                return f"it is a key of {key.name}: indent it below {key.name}"
        return ""

    def _is_later(self, entries: Entries) -> bool:
        """Whether the first key's value belongs to a later release: then nothing is known of the
        other keys."""
        later = next((getattr(k.kind, "later", ()) for k in self.keys if k.name == self.first), ())
        node = entries.get(self.first)
        return isinstance(node, BrokenNode) or (isinstance(node, Scalar) and node.text in later)

    def _report_choice(self, entries: Entries, reading: Reading) -> None:
        chosen = [key for key, _ in entries.entries if key.text in self.one_of]
        names = ", ".join(self.one_of)
        if self.one_of and not chosen:
            reading.problems.add(
                entries.place, "missing-key", f"one of the keys {names} is missing"
            )
        for extra in chosen[1:]:
            message = f"{extra.text!r} cannot stand beside {chosen[0].text!r}"
            reading.problems.add(
                extra.place, "conflicting-keys", message, f"give exactly one of {names}"
            )

    def schema(self) -> JsonSchema:
        properties = {key.name: key.schema() for key in self.keys}
        section: JsonSchema = {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        if required := [k.name for k in self.keys if k.is_required]:
            section["required"] = required
        if self.one_of:
            section["oneOf"] = [{"required": [name]} for name in self.one_of]
        return section


@dataclass(frozen=True, slots=True)
class Fields:
    """The content of a section: nodes as written, and values that could be read."""

    place: Position
    nodes: Mapping[str, tuple[Scalar, Node]]
    values: dict[str, object] = field(default_factory=dict)

    def __getitem__(self, key: Key[T]) -> T:
        return cast("T", self.values.get(key.name, key.default))

    def place_of(self, key: Key[object]) -> Position | None:
        """Where the key's value stands; None where it is not given."""
        pair = self.nodes.get(key.name)
        return pair[1].place if pair else None

    def item_places(self, key: Key[object]) -> tuple[Position, ...]:
        """Where the items of a list stand; none where the key is not given."""
        pair = self.nodes.get(key.name)
        node = pair[1] if pair else None
        return tuple(item.place for item in node.items) if isinstance(node, Items) else ()

    def present(self, keys: Iterable[Key[object]]) -> list[Scalar]:
        """The keys, of these, that the section has."""
        return [self.nodes[k.name][0] for k in keys if k.name in self.nodes]


@dataclass(frozen=True, slots=True)
class Nested(Generic[T]):
    """A section as the value of a key, and the function that builds a value from it."""

    section: Section
    build: Callable[[Fields, Reading], T]

    def read(self, node: Node, reading: Reading) -> T:
        return self.build(self.section.read(node, reading), reading)

    def schema(self) -> JsonSchema:
        return self.section.schema()


def _property_names(schema: JsonSchema) -> set[str]:
    """The names of the properties of an object, or of all its alternatives."""
    names = set(schema.get("properties", ()))
    for alternative in schema.get("oneOf", ()):
        names |= _property_names(alternative)
    return names
