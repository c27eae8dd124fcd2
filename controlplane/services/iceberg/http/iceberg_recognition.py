"""Which requests are for the catalogue of Iceberg, which is loaded when there is one."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

PREFIX: Final = "/iceberg"


def is_for_iceberg(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == PREFIX or path.startswith(f"{PREFIX}/")
