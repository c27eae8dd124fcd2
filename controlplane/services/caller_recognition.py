"""Requests of readers who come with a bearer token. They are looked up, and answered, on the
threads of the S3 view, since they read the same trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread
from starlette.requests import Request

from controlplane.services.http_parts import HttpParts

Caller = TypeVar("Caller")


async def recognised(
    parts: HttpParts, request: Request, find: Callable[[str], Caller | None]
) -> Caller | None:
    """Whose token a request carries, by `find`; None where it carries none. A token without an
    owner is counted."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    caller = None
    if kind.lower() == "bearer" and text:
        caller = await to_thread.run_sync(find, text.strip(), limiter=parts.threads.s3_keys)
    if caller is None:
        parts.counters.add("token_failures")
    return caller
