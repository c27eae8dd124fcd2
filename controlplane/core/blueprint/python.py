"""The keys of `connector: python`: a source that the user's own code lists and reads.

The code is identified by its syntax tree, as that of transforms is, and run in the data plane
alone. Does not belong here: keys that connectors share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from controlplane.core.blueprint.common_keys import DELETES, READ_CONNECTOR, REFRESH, SCHEMA
from controlplane.core.blueprint.model import Read
from controlplane.core.blueprint.problems import BlueprintRefused, Code
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_places import ParamValue, TextPlace
from controlplane.core.blueprint.transforms import FILE, MODULES, NO_CODE, PARAMS, main_module
from controlplane.core.blueprint.value_kinds import Reading, SourceText, secret_fault
from controlplane.core.python import code

PYTHON = Key(
    "python",
    SourceText("Python"),
    NO_CODE,
    "A module with list(context) and read(context, object).",
    example="def list(context): ...",
)
ENTRYPOINTS = ("list", "read")
_FUNCTIONS = "a Python source has def list(context) and def read(context, object)"


def _read(fields: Fields, reading: Reading) -> Read:
    if not fields.present((PYTHON, FILE)):
        raise BlueprintRefused  # which has been reported
    if SCHEMA.name not in fields.nodes:
        message = "the key 'schema' is missing; rows of a program have no columns of their own"
        reading.problems.add(fields.place, "missing-key", message, "schema: day DATE, rate DOUBLE")
    _report_secrets(fields, reading)
    code = module_settings(fields, reading, ENTRYPOINTS, _FUNCTIONS)
    params, schema = dict(fields[PARAMS]), fields[SCHEMA]
    settings: dict[str, ParamValue] = {
        **code,
        "params": json.dumps(params, sort_keys=True),
        "schema": schema,
    }
    plain = {k: v for k, v in params.items() if not str(v).startswith("secret://")}
    return Read(
        connector="python",
        path=f"python:{code['main']}",
        format="python",
        options=(("code", code["code"]), ("params", json.dumps(plain, sort_keys=True))),
        schema=schema,
        refresh_s=fields[REFRESH].every_s,
        cron=fields[REFRESH].cron,
        on_demand_s=fields[REFRESH].on_demand_s,
        deletes_max=fields[DELETES],
        settings=tuple(sorted(settings.items())),
    )


def _report_secrets(fields: Fields, reading: Reading) -> None:
    for _, value in fields[PARAMS]:
        if (
            isinstance(value, str)
            and value.startswith("secret://")
            and (fault := secret_fault(value))
        ):
            reading.problems.add(fields.nodes[PARAMS.name][0].place, *fault)


def module_settings(
    fields: Fields, reading: Reading, functions: Sequence[str], hint: str = ""
) -> dict[str, str]:
    """The user's modules as settings of a source: `code` is their digest, `main` the path of the
    module that has these functions. `hint`: what to write where one is missing."""
    main, place = main_module(fields, reading, PYTHON)
    modules = dict(sorted({*fields[MODULES], main}))
    digest = _code_digest(modules, (main.path, place), functions, reading, hint)
    return {"code": digest, "main": main.path, "modules": json.dumps(modules)}


def _code_digest(
    modules: Mapping[str, str],
    main: tuple[str, TextPlace],
    functions: Sequence[str],
    reading: Reading,
    hint: str = "",
) -> str:
    """Digest of the code, independent of its layout and comments. `main` has these functions;
    `hint`: what to write where one is missing."""
    path, place = main
    try:
        bundles = [code.analyse(modules, path, name) for name in functions]
    except code.CodeProblem as e:
        at = (
            place.at(e.line, e.column)
            if e.file == path
            else TextPlace(e.file, 1, 1, exact=True).at(e.line, e.column)
        )
        is_missing = e.code == "missing-entrypoint" and hint
        raise reading.refuse(at, _code_of(e), e.message, hint if is_missing else e.hint) from e
    return bundles[-1].digest.hex()


def _code_of(problem: code.CodeProblem) -> Code:
    """The same as for transforms."""
    match problem.code:
        case "missing-entrypoint" | "unsupported-signature" as same_code:
            return same_code
        case _:
            return "invalid-python"


READ = Nested(
    Section(
        (READ_CONNECTOR, PYTHON, FILE, MODULES, PARAMS, SCHEMA, REFRESH, DELETES),
        one_of=("python", "file"),
        first="connector",
        may_hold_secrets=True,
    ),
    _read,
)
