"""The server of Delta Sharing, as the API serves it. The server itself is loaded at the first
request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.services.sharing.http.sharing_recognition import PREFIX, is_for_sharing

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from controlplane.services.http_parts import HttpParts

__all__ = ["PREFIX", "app", "is_for_sharing"]


def app(parts: HttpParts) -> ASGIApp:
    from controlplane.services.sharing.http.sharing_app import SharingApp

    return SharingApp(parts)
