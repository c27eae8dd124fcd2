"""The catalogue of Iceberg, as the API serves it. The catalogue itself is loaded at the first
request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.services.iceberg.http.iceberg_recognition import PREFIX, is_for_iceberg

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from controlplane.services.http_parts import HttpParts

__all__ = ["PREFIX", "app", "is_for_iceberg"]


def app(parts: HttpParts) -> ASGIApp:
    from controlplane.services.iceberg.http.iceberg_app import IcebergApp

    return IcebergApp(parts)
