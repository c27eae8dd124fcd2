"""One dataflow over files with types: SQLite in Spark's place, and types told and enforced as Spark
does it.

Does not belong here: what is expected of it.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from controlplane.core.plan.plan_values import user_error
from controlplane.core.schema.ddl_schemas import struct, types
from controlplane.operations.desired import blueprints
from dataplane.connectors.files.folder_types import unfit, with_folders
from dataplane.contract.claims import Claim, ParseClaim, ParseTask, TaskSpec
from dataplane.contract.joins import is_held, join
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.schemas import NO_COLUMNS, Json, Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.contract.types import NOTHING
from tests.property.engine import Engine, objects_of, path_of
from tests.property.model import Fragment
from tests.unit.expectations import world as expectations
from tests.unit.expectations.world import BRANCH, Same

KINDS = (
    ("integer", r"-?(0|[1-9]\d{0,8})"),
    ("long", r"-?[1-9]\d{9,17}"),
    ("double", r"-?(0|[1-9]\d*)\.\d+"),
    ("date", r"\d{4}-\d\d-\d\d"),
)
FITS = {
    "integer": r"-?\d{1,9}",
    "long": r"-?\d{1,18}",
    "double": r"-?\d+(\.\d+)?",
    "date": r"\d{4}-\d\d-\d\d",
    "string": r"(?s).*",
}
Row = Mapping[str, Any]


def rows_of(found: SourceObject) -> list[Row]:
    """With the columns that its folders give."""
    return [{**row, **dict(found.get("folders", ()))} for row in _own_rows(found)]


def _own_rows(found: SourceObject) -> list[Row]:
    if found["name"].endswith(".parquet"):
        return cast(
            "list[Row]", pq.read_table(path_of(found["uri"]), partitioning=None).to_pylist()
        )
    text = path_of(found["uri"]).read_text()
    if found["name"].endswith(".json"):
        return [json.loads(line) for line in text.splitlines()]
    return [{k: v or None for k, v in row.items()} for row in csv.DictReader(io.StringIO(text))]


def inferred(objects: Sequence[SourceObject], under: Schema = NO_COLUMNS) -> Schema:
    """Of all values, as reading them for the first time would have it: what nothing else holds is
    text."""
    found: dict[str, Json] = {}
    for one in objects:
        for row in _own_rows(one):
            for name, value in row.items():
                found[name] = join(found.get(name, NOTHING), _kind(value), is_text=True)
    return with_folders(struct(found.items()), objects, under)


def _kind(value: Any) -> Json:
    if isinstance(value, dict):
        return struct((name, _kind(v)) for name, v in value.items())
    return (
        NOTHING
        if value is None
        else next((k for k, p in KINDS if re.fullmatch(p, str(value))), "string")
    )


def fits(kind: Json, value: Any, *, is_inferred: bool) -> bool:
    """Whether a value can be read; under an inferred type of numbers only what it holds."""
    if value is None:
        return True
    if is_inferred:
        return is_held(_kind(value), kind, is_text=True)
    if isinstance(kind, str):
        return bool(re.fullmatch(FITS[kind], str(value)))
    return all(fits(t, value.get(n), is_inferred=False) for n, t in types(kind).items())


class Typed(Engine):
    def _result(self, claim: Claim, task: TaskSpec) -> TaskResult:
        base: TaskResult = {"task": task["task"], "epoch": task["epoch"], "state": "done"}
        match claim["kind"]:
            case "infer":
                if damaged := _damaged(objects_of(task)):
                    return {**base, "state": "failed", "error": _malformed(damaged)}
                return {**base, "result": {"schema": inferred(objects_of(task))}}
            case "parse":
                return self._parse(claim, cast("ParseTask", task), base)
            case _:
                return super()._result(claim, task)

    def _parse(self, claim: ParseClaim, task: ParseTask, result: TaskResult) -> TaskResult:
        kinds = types(task["columns"])
        rows = [row for o in task["objects"] for row in rows_of(o)]
        if damaged := _damaged(task["objects"]):
            return {**result, "state": "failed", "error": _malformed(damaged)}
        if bad := _misfit(task, kinds):
            return {
                **result,
                "state": "failed",
                "error": _malformed(bad),
                "result": {"schema": inferred(task["objects"], task["columns"])},
            }
        cells = tuple(tuple(_cell(row.get(n)) for n in kinds) for row in rows)
        self._store(claim, task, Fragment(tuple(kinds), cells), result)
        result["schema"] = task["columns"]
        return result


def _damaged(objects: Sequence[SourceObject]) -> str | None:
    """The name of the first file that cannot be read at all."""
    return next((o["name"] for o in objects if b"damaged" in path_of(o["uri"]).read_bytes()), None)


def _malformed(what: str) -> TaskError:
    return user_error("MALFORMED", f"{what} is malformed")


def _misfit(task: ParseTask, kinds: Mapping[str, Json]) -> str | None:
    """The column of a value that cannot be read, or what is wrong with a folder."""
    names = task.get("inferred", ())
    for found in task["objects"]:
        for row in _own_rows(found):
            for name, kind in kinds.items():
                if not fits(kind, row.get(name), is_inferred=name in names):
                    return name
        if failure := unfit(found, found["uri"], kinds, names):
            return failure.message
    return None


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else value


class World(expectations.World):
    def __init__(self, home: Path, **settings: Any) -> None:
        super().__init__(home, **settings)
        self.engine = Typed(self.ctx, self.lake, Same(), lambda _: None)

    def file(self, name: str, text: str) -> None:
        """Parquet files are made of the text of a CSV file."""
        path = self.home / "orders" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            pq.write_table(pa_csv.read_csv(io.BytesIO(text.encode())), path)
        else:
            path.write_text(text)

    def remove(self, name: str) -> None:
        (self.home / "orders" / name).unlink()

    def read(
        self,
        policy: str = "append",
        format: str = "csv",
        schema: str = "",
        children: Sequence[str] = (),
        branch: str = BRANCH,
        **keys: Json,
    ) -> None:
        """Read the files under a policy; `children` are queries over `orders`, called c0, c1 ..."""
        body = {
            "connector": "files",
            "path": f"{self.home}/orders/*.{format}",
            "format": format,
            **keys,
        }
        extra: dict[str, Any] = {"schema": schema} if schema else {}
        extra |= {"options": {"header": True}} if format == "csv" else {}
        components: dict[str, Any] = {
            "orders": {"read": {**body, **extra, "schema_change": policy}}
        }
        components |= {f"c{i}": {"transform": {"sql": sql}} for i, sql in enumerate(children)}
        text = json.dumps({"dataflow": "shop", "components": components})
        blueprints.apply(self.ctx, branch, [blueprints.SentBlueprint("/shop.yaml", text, {})])

    @property
    def schema(self) -> dict[str, Json]:
        with self.store.read() as tx:
            return types(tx.states.newest(BRANCH, ["shop.orders"])["shop.orders"].schema)

    def error(self, dataset: str = "shop.orders") -> tuple[str, str]:
        """Condition and message of what keeps it from being up to date."""
        found = self.decision(dataset).error
        assert found is not None
        return found["condition"] or "", found["message"]
