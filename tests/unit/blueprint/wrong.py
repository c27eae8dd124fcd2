"""Blueprints that are wrong, with what their authors are told. A `^` marks the word that is at fault."""

from __future__ import annotations

from typing import NamedTuple

FLOW = "dataflow: d\ncomponents:\n"
RAW = "  raw: {read: {connector: files, path: /data/*.csv, format: csv}}\n"
DECLARED = (
    "  flights:\n    read: {connector: files, path: /f/*.csv, format: csv,\n"
    "      schema: 'carrier STRING, month INT, delay INT'}\n"
    "  airlines:\n    read: {connector: files, path: /a/*.csv, format: csv, schema: 'carrier STRING, name STRING'}\n"
)


class Told(NamedTuple):
    """One problem: its code, and parts of its message and of its hint."""

    code: str
    message: str
    hint: str = ""


class Wrong(NamedTuple):
    """Texts by file, and what is told of each mark, in order of file and place."""

    name: str
    texts: dict[str, str]
    told: tuple[Told, ...]


def flow(name: str, components: str, *told: Told) -> Wrong:
    """One file with these components."""
    return Wrong(name, {"d.yaml": FLOW + components}, told)


def sql(name: str, query: str, *told: Told, more: str = "") -> Wrong:
    """One query over sources with and without declared columns."""
    lines = "".join(f"        {line}\n" for line in query.split("\n"))
    return flow(name, f"{DECLARED}{RAW}  out:\n    transform:\n      sql: |\n{lines}{more}", *told)


TRIAL = (
    flow(
        "an unknown table, bad SQL and an unknown key",
        RAW + "  one:\n    transform: {sql: SELECT * FROM ^nothing}\n"
        "  two:\n    transform:\n      sql: SELECT a ^FORM raw x\n"
        "  three:\n    transform: {sql: SELECT * FROM two}\n    ^colour: red\n",
        Told("missing-input", "'nothing'"),
        Told("invalid-sql", "'FORM'", "did you mean FROM?"),
        Told("unknown-key", "'colour'", "known here"),
    ),
    Wrong(
        "a wrong name, an unknown connector, an unknown table and an empty component",
        {
            "d.yaml": "dataflow: ^My-Shop\ncomponents:\n  raw: {read: {connector: ^fles, path: /d/*.csv}}\n"
            "  one: {transform: {sql: SELECT * FROM ^rav}}\n  two:^\n  ok: {transform: {sql: SELECT * FROM raw}}\n"
        },
        (
            Told("invalid-name", "'My-Shop'", "my_shop"),
            Told("invalid-value", "'fles'", "did you mean 'files'?"),
            Told("missing-input", "'rav'", "did you mean 'raw'?"),
            Told("wrong-type", "found nothing"),
        ),
    ),
)

SEVERAL_FILES = (
    Wrong(
        "a dataset of a file that is no YAML",
        {
            "a.yaml": "dataflow: a\ncomponents:\n  x: [\n^",
            "b.yaml": "dataflow: b\ncomponents:\n  y: {transform: {sql: SELECT * FROM a.x JOIN ^c.z}}\n",
        },
        (Told("invalid-yaml", ""), Told("missing-input", "'c.z'")),
    ),
    Wrong(
        "a dataset of a file without a name, which may have any",
        {
            "a.yaml": "^components:\n  x: {transform: {sql: SELECT 1 AS n}}\n",
            "b.yaml": "dataflow: b\ncomponents:\n  y: {transform: {sql: SELECT * FROM a.x JOIN ^z}}\n",
        },
        (Told("missing-key", "'dataflow'"), Told("missing-input", "'z'")),
    ),
    Wrong(
        "a dataset that is broken in another file",
        {
            "a.yaml": "dataflow: a\ncomponents:\n  x: {transform: {sql: SELECT * FROM ^nothing}}\n  w:^\n",
            "b.yaml": "dataflow: b\ncomponents:\n  y: {transform: {sql: SELECT * FROM a.x JOIN a.w JOIN ^a.v}}\n",
        },
        (Told("missing-input", "'nothing'"), Told("wrong-type", ""), Told("missing-input", "'a.v'")),
    ),
    Wrong(
        "one dataflow twice, and a problem in each",
        {
            "a.yaml": "dataflow: a\ncomponents:\n  x: {transform: {sql: SELECT * FROM ^one}}\n",
            "b.yaml": "dataflow: ^a\ncomponents:\n  x: {transform: {sql: SELECT * FROM ^two}}\n",
        },
        (
            Told("missing-input", "'one'"),
            Told("duplicate-dataflow", "a.yaml", "rename one"),
            Told("missing-input", "'two'"),
        ),
    ),
)

CASES = (*TRIAL, *SEVERAL_FILES)
