"""Text to blueprint, or every problem at once; and a draft of the readable parts in spite of
problems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from controlplane.core.blueprint import text_forms, yaml_reader
from controlplane.core.blueprint.driver_keep import DRIVERS
from controlplane.core.blueprint.expansion import expanded, text_of
from controlplane.core.blueprint.language import (
    BLUEPRINT,
    COMPONENTS,
    DATAFLOW,
    DESCRIPTION,
    SPARK,
    TIMEZONE,
)
from controlplane.core.blueprint.model import Blueprint
from controlplane.core.blueprint.notify import NOTIFY, report_unknown_datasets
from controlplane.core.blueprint.problems import BlueprintRefused, Problems
from controlplane.core.blueprint.section_keys import Fields
from controlplane.core.blueprint.text_places import Position
from controlplane.core.blueprint.value_kinds import Reading
from controlplane.core.blueprint.yaml_nodes import Entries, Items, Node, Scalar, YamlDocument
from controlplane.core.errors import InvalidBlueprint, Problem

NO_FILES: Mapping[str, str] = MappingProxyType({})
_NAME_LINE = re.compile(r"^dataflow:[ \t]*([a-z][a-z0-9_]*)[ \t]*(#.*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Draft:
    """What could be read of a blueprint, and all that is wrong with it.

    `dataflow` is its name as written, even where that is no name; empty where it is unknown.
    `place` is where it stands. `blueprint` holds all components with a body; None where the text is
    no blueprint at all. `unsound` are the components with problems of their own, whether or not
    they are among these.
    """

    dataflow: str
    place: Position
    blueprint: Blueprint | None
    unsound: frozenset[str]
    problems: tuple[Problem, ...]


def parse(text: str | bytes, *, file: str, files: Mapping[str, str] = NO_FILES) -> Blueprint:
    """Read one blueprint. `file` names it in places; `files` are the texts of the Python files that
    it names.

    Raises InvalidBlueprint with every problem, in order of place, and nothing else on any text.
    """
    parsed = draft(text, file=file, files=files)
    if parsed.problems:
        raise InvalidBlueprint(parsed.problems)
    assert parsed.blueprint is not None
    return parsed.blueprint


def draft(text: str | bytes, *, file: str, files: Mapping[str, str] = NO_FILES) -> Draft:
    """As `parse`, but problems are part of the answer. Never raises, on any text."""
    problems = Problems()
    fields = _fields(text, file, files, problems)
    if fields is None:
        return Draft(_name_line(text), Position(file, 1, 1), None, frozenset(), problems.in_order)
    name, place = _named(fields)
    components = fields[COMPONENTS]
    if NOTIFY.name in fields.nodes and not components.unsound:
        names = {component.name for component in components.components}
        notify = fields.nodes[NOTIFY.name][0].place
        report_unknown_datasets(fields[NOTIFY], names, notify, problems)
    blueprint = Blueprint(
        dataflow=name,
        description=fields[DESCRIPTION],
        timezone=fields[TIMEZONE],
        spark=fields[SPARK],
        components=components.components,
        file=file,
        drivers=fields[DRIVERS],
        notify=fields[NOTIFY],
    )
    return Draft(name, place, blueprint, components.unsound, problems.in_order)


def _named(fields: Fields) -> tuple[str, Position]:
    """The dataflow's name as it is written, and its place."""
    if DATAFLOW.name not in fields.nodes:
        return "", fields.place
    node = fields.nodes[DATAFLOW.name][1]
    written = node.text if isinstance(node, Scalar) else ""
    return fields[DATAFLOW] or written, node.place


def _name_line(text: str | bytes) -> str:
    """The dataflow's name, of a text that cannot be read as YAML."""
    source = text if isinstance(text, str) else text.decode(errors="replace")
    match = _NAME_LINE.search(source)
    return match[1] if match else ""


def _fields(
    text: str | bytes, file: str, files: Mapping[str, str], problems: Problems
) -> Fields | None:
    document = yaml_reader.read(text, file, problems)
    if document is None:
        return None
    try:
        expansion = expanded(document, problems)
        return BLUEPRINT.read(
            expansion.document.root,
            Reading(expansion.document, files, problems, uses=expansion.uses),
        )
    except BlueprintRefused:
        return None


def file_references(text: str | bytes) -> tuple[str, ...]:
    """The relative Python files that a blueprint names, for a client to send along. Problems are
    left to `parse`."""
    document = _expanded(text, Problems())
    paths = _named_files(document.root) if document else ()
    return tuple(sorted({path for path in paths if text_forms.module_path(path) is None}))


def written_out(text: str | bytes, *, file: str) -> str:
    """A blueprint with its defaults, templates, connections and schemas put where they are used, and
    with `cdc` and `distinct` as transforms, as YAML.

    Raises InvalidBlueprint for problems of these.
    """
    problems = Problems()
    document = _expanded(text, problems, file)
    problems.raise_if_any()
    assert document is not None
    return text_of(document)


def _expanded(text: str | bytes, problems: Problems, file: str = "") -> YamlDocument | None:
    document = yaml_reader.read(text, file, problems)
    try:
        return expanded(document, problems).document if document else None
    except BlueprintRefused:
        return None


def _named_files(root: Node) -> Iterator[str]:
    components = _child(root, "components")
    for _, component in components.entries if isinstance(components, Entries) else ():
        for body in (_child(component, "transform"), _child(component, "read")):
            modules = _child(body, "modules")
            for node in (
                _child(body, "file"),
                *(modules.items if isinstance(modules, Items) else ()),
            ):
                if isinstance(node, Scalar) and isinstance(node.value, str):
                    yield node.value


def _child(node: Node | None, key: str) -> Node | None:
    return node.get(key) if isinstance(node, Entries) else None
