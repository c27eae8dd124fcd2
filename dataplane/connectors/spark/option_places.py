"""Places in the options of a source: they are checked as the places of files are.

An option names a place where its value is an absolute path or a URI. Example: with
`HEADGATE_SOURCES=mongodb://db:27017` the value `mongodb://app:password@db:27017/shop` is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dataplane.storage.refused_places import SOURCES, Places
from dataplane.task_failures import TaskFailure

# Clients differ in how they read a URI with one of `?#\@` before its path. Such a URI is no match,
# so an allow list refuses it
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?P<login>[^/?#\\@]*@)?(?P<hosts>[^/?#\\@]+)(?P<path>/.*)?",
    re.DOTALL,
)
# Java reads the same file by `file:/a`, `FILE:///a`, `file://localhost/a` and within `jar:file:/a!/b`
_FILE = re.compile(r"\bfile:(?://[^/]*(?=/))?(?P<path>[^!]*)", re.DOTALL | re.IGNORECASE)


def check_option_places(options: Mapping[str, str], places: Places) -> None:
    """TaskFailure for an option with a place that may not be read. The value may be a secret: the
    message has the option's name alone."""
    for name, text in options.items():
        try:
            for place in _places_in(text):
                places.check_source(place)
        except TaskFailure as e:
            message = f"the option {name} names a place that dataflows may not read"
            hint = f"name another place, or ask the operator to add this one to {SOURCES}"
            raise TaskFailure(e.condition, f"{message}: {hint}") from None


def _places_in(text: str) -> Iterator[str]:
    """A path, or a URI for each of its hosts, without the login; besides, files within a URI."""
    for file in _FILE.finditer(text):
        yield f"file:{file['path']}"
    match = _URI.fullmatch(text)
    if match is not None:
        for host in match["hosts"].split(","):
            yield f"{match['scheme'].lower()}://{host}{match['path'] or ''}"
    elif ":/" in text or text.startswith("/"):
        yield text
