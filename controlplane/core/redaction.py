"""Credentials in texts of others: passwords and tokens in URLs, tokens of ours, and secret values
that this process received.

The data plane redacts the credentials that it knows; the output of its JVMs is outside its reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SHORTEST = 4  # characters: shorter values would be found in every other word
_CREDENTIALS = re.compile(
    r"(?P<url>://[^/\s:@]*:)[^/\s@]+(?=@)"
    r"|(?P<query>[?&;](?:password|pwd|sig|token|sslpassword)=)[^&;\s]+"
    r"|(?P<jwt>\beyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"  # an identity token
    r"|(?P<ours>\bhg_)(?:[a-z][a-z0-9-]{2,39}\.)?[A-Za-z0-9_-]{20,}",
    re.IGNORECASE,
)
# One of these is in all that is meant: looking for them takes far less time
_SIGNS = (
    "://",
    "?",
    "&",
    ";",
    "hg_",
    "eyj",
)
_secrets: set[str] = set()


def remember(values: Iterable[str]) -> None:
    """Hide these from now on; called while the process starts."""
    _secrets.update(value for value in values if len(value) >= SHORTEST)


def redacted(text: str) -> str:
    for value in sorted(_secrets, key=len, reverse=True):
        text = text.replace(value, "***")
    lower = text.lower()
    if not any(sign in lower for sign in _SIGNS):
        return text
    return _CREDENTIALS.sub(lambda match: f"{match[match.lastgroup or 0]}***", text)
