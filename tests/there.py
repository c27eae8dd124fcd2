"""What a test knows to be there, although its type says that it may not be."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def there(value: T | None) -> T:
    assert value is not None
    return value
