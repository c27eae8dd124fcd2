"""Completions at a place: keys of the language and their words, datasets, columns, parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from controlplane.core.blueprint.language import BLUEPRINT
from controlplane.services.editor.knowledge import Meaning
from controlplane.services.editor.outline import Spot

Kind: TypeAlias = Literal["key", "word", "dataset", "column", "parameter"]
Columns: TypeAlias = Callable[[str], Mapping[str, str]]  # of a dataset, with their types
OF_DATASETS = frozenset({"from"})  # keys whose value is a dataset
# Lists or texts of columns
OF_COLUMNS = frozenset({"sort_by", "partition_by", "unique", "check", "key"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """`replaces`: how much of what stands before the place it is put over, in characters."""

    label: str
    kind: Kind
    detail: str = ""
    insert: str = ""
    replaces: int = 0


def candidates(
    meant: Meaning, spot: Spot, component: str, text: str, columns: Columns
) -> list[Candidate]:
    """`text`: of the document before the place; aliases of tables are looked for in it and
    behind."""
    if spot.is_text and spot.key != "python" and "python" not in spot.path[-1:]:
        if spot.key == "check":
            return list(_own_columns(meant, component, spot, columns))
        return list(_in_sql(meant, component, spot, text, columns))
    if spot.key:
        return list(_values(meant, spot, component, columns))
    return list(_keys(meant, spot))


def schema_of(path: tuple[str, ...], beside: Mapping[str, str]) -> Mapping[str, Any]:
    """The part of the language's schema for a mapping below these keys; empty where there is
    none."""
    schema: Mapping[str, Any] = _language()
    for key in path:
        schema = _below(schema, key)
    return _merged(_items(schema), beside)


@cache
def _language() -> Mapping[str, Any]:
    return BLUEPRINT.schema()


def _items(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "items" in schema:
        schema = schema["items"]
    return schema


def _below(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    merged = _merged(_items(schema), {})
    if key in merged.get("properties", {}):
        below: Mapping[str, Any] = merged["properties"][key]
        return below
    others = merged.get("additionalProperties")
    return others if isinstance(others, dict) else {}


def _merged(schema: Mapping[str, Any], beside: Mapping[str, str]) -> Mapping[str, Any]:
    """The keys of the form of the named connector, else all keys of all forms. A connector's name
    may be any."""
    forms = [form for form in schema.get("oneOf", ()) if "properties" in form]
    if not forms:
        return schema
    names = [form["properties"].get("connector", {}).get("const") for form in forms]
    chosen = [
        form for form, name in zip(forms, names, strict=True) if name == beside.get("connector")
    ] or forms
    properties = {key: value for form in chosen for key, value in form["properties"].items()}
    if any(names):
        properties["connector"] = {
            "enum": [name for name in names if name],
            "description": "Kind of the place.",
        }
    return {"properties": {**schema.get("properties", {}), **properties}}


# --- keys and words --------------------------------------------------------------------------------


def _keys(meant: Meaning, spot: Spot) -> Iterator[Candidate]:
    if spot.path[-1:] == ("inputs",):
        yield from _datasets(meant, spot.typed, "dataset", ": ")
        return
    schema = schema_of(spot.path, spot.beside)
    for key, value in schema.get("properties", {}).items():
        if key not in spot.beside or key == spot.typed:
            yield Candidate(key, "key", value.get("description", ""), f"{key}: ", len(spot.typed))


def _values(meant: Meaning, spot: Spot, component: str, columns: Columns) -> Iterator[Candidate]:
    if spot.key in OF_DATASETS:
        yield from _datasets(meant, spot.typed, "dataset", "")
        return
    if spot.key in OF_COLUMNS and len(spot.path) > 1:
        yield from _own_columns(meant, component, spot, columns)
        return
    schema = schema_of(spot.path, spot.beside)
    value = schema.get("properties", {}).get(spot.key) or _below(schema, spot.key)
    value = _items(value)
    words = value.get("enum") or (["true", "false"] if value.get("type") == "boolean" else [])
    for word in words:
        yield Candidate(
            str(word),
            "word",
            "default" if word == value.get("default") else "",
            "",
            len(spot.typed),
        )


# --- datasets and columns --------------------------------------------------------------------------


def _datasets(meant: Meaning, typed: str, kind: Kind, behind: str) -> Iterator[Candidate]:
    for name in meant.names():
        yield Candidate(name, kind, "dataset", f"{name}{behind}", len(typed))


def _own_columns(
    meant: Meaning, component: str, spot: Spot, columns: Columns
) -> Iterator[Candidate]:
    for name, kind in columns(f"{meant.dataflow}.{component}").items():
        yield Candidate(name, "column", kind, "", len(spot.typed))


def _in_sql(
    meant: Meaning, component: str, spot: Spot, text: str, columns: Columns
) -> Iterator[Candidate]:
    """Behind `alias.` the columns of its table; else datasets, columns of the tables that are
    named, parameters."""
    owner, dot, rest = spot.typed.rpartition(".")
    named = _tables(meant, component, text)
    if dot and (
        dataset := _of_alias(meant, component, text, owner) or meant.resolve(owner, component)
    ):
        for name, kind in columns(dataset).items():
            yield Candidate(name, "column", kind, "", len(rest))
        return
    yield from _datasets(meant, spot.typed, "dataset", "")
    if dot:
        return
    offered = set[str]()
    for dataset in named:
        for name, kind in columns(dataset).items():
            if name not in offered:
                offered.add(name)
                yield Candidate(name, "column", f"{kind} of {dataset}".strip(), "", len(spot.typed))
    node = meant.nodes.get(f"{meant.dataflow}.{component}")
    if node is not None and node.is_transform:
        for name, _ in node.body.params:
            yield Candidate(f":{name}", "parameter", "parameter", "", len(spot.typed))


def _tables(meant: Meaning, component: str, text: str) -> list[str]:
    words = re.findall(r"\b(?:FROM|JOIN)\s+([\w.]+)", text, re.IGNORECASE)
    datasets = [dataset for word in words if (dataset := meant.resolve(word, component))]
    return list(dict.fromkeys(datasets))


def _of_alias(meant: Meaning, component: str, text: str, alias: str) -> str:
    pattern = rf"\b(?:FROM|JOIN)\s+([\w.]+)\s+(?:AS\s+)?{re.escape(alias)}\b"
    match = re.search(pattern, text, re.IGNORECASE)
    return meant.resolve(match[1], component) if match else ""
