"""Which requests are for the server of Delta Sharing, which is loaded when there is one."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

PREFIX: Final = "/delta-sharing"


def is_for_sharing(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == PREFIX or path.startswith(f"{PREFIX}/")
