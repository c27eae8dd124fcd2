"""Entity tags of records: they name content, so data that did not change is not sent again (RFC
9110, 8.8 and 13.1.2)."""

from __future__ import annotations

import re

from controlplane.ports.records import Rendering
from dataplane.contract.encoding import digest

_TAG = re.compile(r'(?:W/)?("[!#-~\x80-\xff]*")')


def content_tag(content: bytes, rendering: Rendering) -> str:
    """Weak: another version of Headgate may write the same rows in other bytes, and so may another
    coding."""
    properties = {"format": rendering.format, "compression": rendering.compression}
    return f'W/"{digest("records-tag/2", content=content, **properties).hex()[:40]}"'


def is_named(tag: str, if_none_match: str | None) -> bool:
    """Whether a list of tags (`*`: any) has this one; whether tags are weak does not matter."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or tag.removeprefix("W/") in _TAG.findall(if_none_match)
