"""Partition keys that users type: as they are stored, or as commands show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dataplane.contract.keys import stored_key

Answer = TypeVar("Answer")
NOT_FOUND = 404


def with_stored_key(ask: Callable[[str | None], Answer], key: str | None) -> Answer:
    """The answer about a partition: of the key as it was typed, else of its encoded form. Raises
    ApiError: where neither is there, that of the typed key."""
    from controlplane.client import ApiError  # slow to import

    stored = stored_key(key or "")
    try:
        return ask(key)
    except ApiError as error:
        if error.status != NOT_FOUND or stored == (key or ""):
            raise
        refused = error
    try:
        return ask(stored)
    except ApiError as error:
        raise (refused if error.status == NOT_FOUND else error) from error
