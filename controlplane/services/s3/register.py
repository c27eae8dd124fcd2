"""The S3 view, as the API serves it. The view itself is loaded at the first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.services.s3.http.s3_recognition import REGION, is_for_s3

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from controlplane.services.s3.http.s3_app import S3Parts

__all__ = ["REGION", "app", "is_for_s3"]


def app(parts: S3Parts) -> ASGIApp:
    from controlplane.services.s3.http.s3_app import S3App

    return S3App(parts)
