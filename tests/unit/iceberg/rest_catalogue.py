"""A REST catalogue in memory, which a web server gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.iceberg_tables import IcebergTables
from tests.servers.web import Web
from tests.unit.listing.location import list_job

TABLE_PATH = "/v1/namespaces/shop/tables/orders"


def rest_job(web: Web, **settings: Any) -> Any:
    named = {"catalog.uri": web.url, "table": "shop.orders", **settings}
    return list_job("iceberg:shop.orders", connector="iceberg", settings=named)


def serve(web: Web, tables: IcebergTables, **answer: Any) -> None:
    """The table by a REST catalogue."""
    table = tables.catalog.load_table("shop.orders")
    metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    body = {"metadata-location": table.metadata_location, "metadata": metadata, **answer}
    web.files["/v1/config"] = b"{}"
    web.files[TABLE_PATH] = json.dumps(body).encode()
