"""How source objects become partitions: keys from names, and what a `partition:` template may be.

The functions that both planes use live in the contract. Does not belong here: listing, trees of partitions.
"""

from __future__ import annotations

import re

from dataplane.contract import fixed_folder, key_of, template_pieces

__all__ = ["fixed_folder", "key_of", "template_fault"]

_WORD = re.compile(r"\{[a-z][a-z0-9_]*\}")


def template_fault(template: str) -> tuple[str, str] | None:
    """What is wrong with a template such as `{year}/{month}-*.csv`, with a hint; None if nothing is."""
    example = "for example {month}.csv"
    folders = [template_pieces(folder) for folder in template.split("/")]
    words = [w for pieces in folders for w in pieces[1::2] if w != "*"]
    literals = [text for pieces in folders for text in pieces[::2]]
    if bad := next((w for w in words if not _WORD.fullmatch(w)), None):
        return f"{bad[:40]!r} is no placeholder", "a to z, 0 to 9 and _ between { and }"
    if any(c in text for text in literals for c in "{}"):
        return "a brace is not closed or not opened", example
    if not words:
        return "a template needs a placeholder", example
    if len(set(words)) < len(words):
        return "a placeholder is used twice", "give each its own name"
    if any("" in pieces[2:-1:2] for pieces in folders):
        return "two placeholders or * touch: where the first ends is open", "put a text between them"
    return None
