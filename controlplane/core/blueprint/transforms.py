"""The language of transforms: SQL or Python, its inputs and parameters."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.core.blueprint import folds, text_forms
from controlplane.core.blueprint.event_time import EMIT
from controlplane.core.blueprint.freshness import Duration
from controlplane.core.blueprint.key_columns import NO_KEY, KeyColumns
from controlplane.core.blueprint.model import (
    QUARANTINE,
    InputHint,
    Previous,
    PythonTransform,
    SqlTransform,
)
from controlplane.core.blueprint.problems import BlueprintRefused, shown
from controlplane.core.blueprint.requirements import Requirements
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_places import ParamValue, TextPlace
from controlplane.core.blueprint.value_kinds import (
    Choice,
    ColumnsText,
    JsonSchema,
    ListOf,
    Params,
    Passage,
    Reading,
    SourceText,
    Text,
    as_text,
    entries_of,
)
from controlplane.core.blueprint.yaml_nodes import Entries, Node, Scalar
from dataplane.contract.jobs import Mode
from dataplane.contract.reach import Reach

NAME = Text((text_forms.name,), f"^{text_forms.NAME}$", "a name")
DATASET = Text(
    (text_forms.dataset,),
    rf"^{text_forms.NAME}(\.{text_forms.NAME})?({QUARANTINE})?$",
    "a dataset's name",
)
INPUT_DATASET = Text((text_forms.input_dataset,), DATASET.pattern, DATASET.expected)
MODULE_PATH = Text((text_forms.module_path,), r"\.py$", "a path")
PARAMETER = Text(
    (text_forms.matching(text_forms.PARAMETER, "a parameter's name"),), f"^{text_forms.PARAMETER}$"
)


@dataclass(frozen=True, slots=True)
class DeclaredInputs:
    """Declared inputs: `name: mode`, or `name: {from: dataset, mode: mode}`."""

    def read(self, node: Node, reading: Reading) -> tuple[InputHint, ...]:
        return tuple(
            self._hints(entries_of(node, reading, "a mapping of input names to modes"), reading)
        )

    def _hints(self, entries: Entries, reading: Reading) -> Iterator[InputHint]:
        for key, value in entries.entries:
            try:
                yield _input(key, value, reading)
            except BlueprintRefused:  # the name is known all the same
                yield InputHint(key.text, None, None, key.place)

    def schema(self) -> JsonSchema:
        value = {"anyOf": [MODE.kind.schema(), INPUT.schema()]}
        return {"type": "object", "propertyNames": DATASET.schema(), "additionalProperties": value}


MODES: tuple[Mode, ...] = ("each", "all", "by", folds.PREVIOUS)
MODE: Key[Mode | None] = Key("mode", Choice(MODES), None, "What a task reads of this input.")
INPUT_FROM: Key[str | None] = Key(
    "from", INPUT_DATASET, None, "The dataset, where it has another name.", example="delays"
)
BEFORE: Key[float | None] = Key(
    "before", Duration(), None, "How long before the start of its granule.", example="1h"
)
AFTER: Key[float | None] = Key(
    "after", Duration(), None, "How long after the end of its granule.", example="10m"
)


def _reach(fields: Fields, reading: Reading) -> Reach:
    if not fields.present((BEFORE, AFTER)):
        raise reading.refuse(
            fields.place, "missing-key", "a reach needs the key 'before' or 'after'", "before: 1h"
        )
    return Reach(int(fields[BEFORE] or 0), int(fields[AFTER] or 0))


REACH: Key[Reach | None] = Key(
    "reach",
    Nested(Section((BEFORE, AFTER)), _reach),
    None,
    "How far rows of neighbouring granules of time are read, of an input by key.",
    example={"before": "1h"},
)
INPUT = Section((INPUT_FROM, MODE, REACH), later=("by",))


def _input(key: Scalar, value: Node, reading: Reading) -> InputHint:
    if isinstance(value, Entries):
        fields = INPUT.read(value, reading)
        dataset, mode, reach = fields[INPUT_FROM], fields[MODE], fields[REACH]
        for written in fields.present((REACH,)) if mode != "by" else ():
            message = "only an input in mode `by` has a reach"
            reading.problems.add(written.place, "conflicting-keys", message, "write mode: by")
    else:
        dataset, mode, reach = None, MODE.kind.read(value, reading), None
    name = INPUT_DATASET.read(as_text(key), reading)
    return InputHint(name, dataset, mode, key.place, reach)


class Module(NamedTuple):
    """A Python file by the path that the blueprint gives it."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A path to one of the files that were sent along."""

    def read(self, node: Node, reading: Reading) -> Module:
        path = MODULE_PATH.read(node, reading)
        if path not in reading.files:
            hint = "paths are relative to the blueprint's file"
            raise reading.refuse(node, "missing-file", f"there is no file {shown(path)}", hint)
        return Module(path, reading.files[path])

    def schema(self) -> JsonSchema:
        return MODULE_PATH.schema()


NO_CODE = Passage("", TextPlace("", 0, 0, exact=False))
NO_MODULES: tuple[Module, ...] = ()
NO_INPUTS: tuple[InputHint, ...] = ()
NO_PARAMS: tuple[tuple[str, ParamValue], ...] = ()
NO_REQUIREMENTS: tuple[str, ...] = ()


SQL = Key("sql", SourceText("SQL"), NO_CODE, "One SELECT.", example="SELECT * FROM flights")
PYTHON = Key(
    "python",
    SourceText("Python"),
    NO_CODE,
    "A module with the function to call.",
    example="def transform(delays): return delays",
)
FILE = Key(
    "file",
    ModuleFile(),
    Module("", ""),
    "A Python file beside the blueprint.",
    example="transforms/scores.py",
)
MODULES = Key(
    "modules",
    ListOf(ModuleFile()),
    NO_MODULES,
    "More Python files that the code imports.",
    example=["transforms/lib.py"],
)
ENTRYPOINT = Key("entrypoint", PARAMETER, "transform", "The function to call.", example="scores")
REQUIREMENTS = Key(
    "requirements",
    Requirements(),
    NO_REQUIREMENTS,
    "Packages that the code needs: name==version.",
    example=["humanize==4.9.0"],
)
PARAMS = Key(
    "params",
    Params(PARAMETER),
    NO_PARAMS,
    "Constants: :name in SQL, the dictionary `params` in Python.",
    example={"minimum": 0},
)
INPUTS = Key(
    "inputs",
    DeclaredInputs(),
    NO_INPUTS,
    "What a task reads of each input: each, by or all; of self: previous.",
    example={"flights": "each", "airlines": "all"},
)
PARTITION_BY = Key(
    "partition_by",
    KeyColumns(),
    NO_KEY,
    "What the output's partition keys are made of.",
    example=["carrier", {"day": "month"}],
)
SCHEMA = Key(
    "schema",
    ColumnsText(),
    "",
    "Columns of the result, where it reads its own partition before.",
    example="year INT, name STRING",
)
_PYTHON_ONLY = (MODULES, ENTRYPOINT, REQUIREMENTS)


def _transform(fields: Fields, reading: Reading) -> SqlTransform | PythonTransform:
    if fields.present((PYTHON, FILE)):
        return _python(fields, reading)
    if not fields.present((SQL,)):
        raise BlueprintRefused  # one of the three is missing, which has been reported
    for key in fields.present(_PYTHON_ONLY):
        message = f"{key.text!r} belongs to Python, not to SQL"
        reading.problems.add(key.place, "conflicting-keys", message, "remove it")
    inputs, previous = _inputs(fields, reading)
    text = fields.nodes[SQL.name][1]
    return SqlTransform(
        *fields[SQL],
        params=fields[PARAMS],
        inputs=inputs,
        partition_by=fields[PARTITION_BY],
        previous=previous,
        is_written=isinstance(text, Scalar) and text.start < text.end,
        is_final=fields[EMIT] == "final",
    )


def _inputs(fields: Fields, reading: Reading) -> tuple[tuple[InputHint, ...], Previous | None]:
    """The datasets that it reads, and the partition before."""
    others, own = folds.split(fields[INPUTS], reading.problems)
    keys = {key.text: key for key in fields.present((SCHEMA, PARTITION_BY))}
    at = fields.nodes[SCHEMA.name][1].place if SCHEMA.name in fields.nodes else fields.place
    return others, folds.previous(own, fields[SCHEMA], at, keys, reading.problems)


def _python(fields: Fields, reading: Reading) -> PythonTransform:
    if not fields.present((INPUTS,)):
        hint = "name each input with each, by or all; {} where there is none"
        reading.problems.add(fields.place, "missing-key", "Python needs the key 'inputs'", hint)
    _report_arguments(fields, reading)
    main, place = main_module(fields, reading, PYTHON)
    inputs, previous = _inputs(fields, reading)
    return PythonTransform(
        modules=tuple(sorted({*fields[MODULES], main})),
        main=main.path,
        text=place,
        entrypoint=fields[ENTRYPOINT],
        inputs=inputs,
        params=fields[PARAMS],
        requirements=fields[REQUIREMENTS],
        partition_by=fields[PARTITION_BY],
        previous=previous,
        entrypoint_place=fields.place_of(ENTRYPOINT),
        is_final=fields[EMIT] == "final",
    )


def main_module(fields: Fields, reading: Reading, inline: Key[Passage]) -> tuple[Module, TextPlace]:
    """The module with the function. Inline code is a module of the component's name."""
    if file := fields[FILE].path:
        return fields[FILE], TextPlace(file, 1, 1, exact=True)
    main = Module(f"{reading.component}.py", fields[inline].text)
    for key in fields.present((MODULES,)):
        if any(m.path == main.path for m in fields[MODULES]):
            message = f"{main.path} is the name of the inline code already"
            reading.problems.add(key.place, "conflicting-keys", message, "rename the module")
    return main, fields[inline].place


def _report_arguments(fields: Fields, reading: Reading) -> None:
    """Inputs, parameters and the session are arguments of one function."""
    params = {name for name, _ in fields[PARAMS]} | {"params", "spark"}
    for hint in fields[INPUTS]:
        if not hint.name.isidentifier() or keyword.iskeyword(hint.name):
            message = f"{hint.name!r} cannot be the name of an argument"
            reading.problems.add(
                hint.place, "invalid-name", message, "write name: {from: dataset, mode: all}"
            )
        elif hint.name in params:
            message = f"{hint.name!r} is a parameter or the session already"
            reading.problems.add(
                hint.place,
                "conflicting-keys",
                message,
                "write another name: {from: dataset, mode: all}",
            )


TRANSFORM = Nested(
    Section(
        (
            SQL,
            PYTHON,
            FILE,
            MODULES,
            ENTRYPOINT,
            PARAMS,
            INPUTS,
            REQUIREMENTS,
            PARTITION_BY,
            SCHEMA,
            EMIT,
        ),
        one_of=("sql", "python", "file"),
    ),
    _transform,
)
