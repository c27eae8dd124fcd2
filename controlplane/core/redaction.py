"""Credentials in texts of others: passwords and tokens in URLs, tokens of ours.

Does not belong here: secrets that are not told by their looks. They are hidden where they are known, in the data plane.
"""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(
    r"(?P<url>://[^/\s:@]*:)[^/\s@]+(?=@)"
    r"|(?P<query>[?&;](?:password|pwd|sig|token|sslpassword)=)[^&;\s]+"
    r"|(?P<ours>\bhg_)[A-Za-z0-9_-]{20,}",
    re.IGNORECASE,
)


def redacted(text: str) -> str:
    return _CREDENTIALS.sub(lambda found: f"{found[found.lastgroup or 0]}***", text)
