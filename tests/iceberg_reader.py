"""What a reader of Iceberg finds in a catalogue, as JSON: run in an environment of its own.

    python -S iceberg_reader.py ENDPOINT REQUESTS

`REQUESTS`: JSON, label -> {by, token, warehouse, table, and perhaps snapshot, at, filter, columns,
mode}. `by`: pyiceberg, polars or duckdb.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

ENDPOINT = sys.argv[1]


def catalogue(request: dict[str, Any]) -> Any:
    rest = importlib.import_module("pyiceberg.catalog.rest")
    return rest.RestCatalog(
        "headgate",
        uri=ENDPOINT,
        token=request["token"],
        warehouse=request["warehouse"],
        **{"scan-planning-mode": request.get("mode", "client")},
    )


def with_pyiceberg(request: dict[str, Any]) -> dict[str, Any]:
    table = catalogue(request).load_table(request["table"])
    snapshot = request.get("snapshot")
    if "at" in request:
        found = table.snapshot_as_of_timestamp(request["at"])
        snapshot = None if found is None else found.snapshot_id
    scan = table.scan(
        row_filter=request.get("filter", "true"),
        selected_fields=tuple(request.get("columns", ["*"])),
        snapshot_id=snapshot,
    )
    return {
        "rows": scan.to_arrow().to_pylist(),
        "files": len(list(scan.plan_files())),
        "count": scan.count(),
        "snapshots": [one.snapshot_id for one in table.snapshots()],
        "ids": {field.name: field.field_id for field in table.schema().fields},
        "types": {field.name: str(field.field_type) for field in table.schema().fields},
        "properties": dict(table.properties),
    }


def with_polars(request: dict[str, Any]) -> dict[str, Any]:
    import polars

    table = catalogue(request).load_table(request["table"])
    vended = table.io.properties
    options = {
        "aws_endpoint_url": vended["s3.endpoint"],
        "aws_region": vended["s3.region"],
        "aws_access_key_id": vended["s3.access-key-id"],
        "aws_secret_access_key": vended["s3.secret-access-key"],
        "aws_allow_http": "true",
    }
    frame = polars.scan_iceberg(table, snapshot_id=request.get("snapshot"), storage_options=options)
    return {"rows": frame.collect().to_arrow().to_pylist()}


def with_duckdb(request: dict[str, Any]) -> dict[str, Any]:
    import duckdb

    database = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        folder = Path(importlib.import_module(f"duckdb_extension_{name}").__file__ or "").parent
        (file,) = folder.rglob(f"{name}.duckdb_extension")
        database.execute(f"LOAD '{file}'")
    database.execute("SET TimeZone = 'UTC'")
    database.execute(f"CREATE SECRET (TYPE iceberg, TOKEN '{request['token']}')")
    database.execute(f"ATTACH '{request['warehouse']}' AS w (TYPE iceberg, ENDPOINT '{ENDPOINT}')")
    where = f"WHERE {request['filter']}" if "filter" in request else ""
    version = f"AT (VERSION => {request['snapshot']})" if "snapshot" in request else ""
    table = ".".join(f'"{name}"' for name in request["table"].split("."))
    columns = ", ".join(request.get("columns", ["*"]))
    result = database.execute(f"SELECT {columns} FROM w.{table} {version} {where}")
    return {"rows": result.to_arrow_table().to_pylist()}


READERS = {"pyiceberg": with_pyiceberg, "polars": with_polars, "duckdb": with_duckdb}


def plain(value: Any) -> Any:
    """As text where JSON has no such value."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def main() -> None:
    answers = {}
    for label, request in json.loads(sys.argv[2]).items():
        try:
            answers[label] = READERS[request["by"]](request)
        except Exception as e:  # noqa: BLE001  # the test says which are expected
            answers[label] = {"error": f"{type(e).__name__}: {e}"}
    json.dump(plain(answers), sys.stdout)


main()
