"""Which requests are for pages. Apart from the pages themselves, which are loaded when the first
one is opened."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.types import Scope

FOLDERS = (
    "find|flows|datasets|branches|activity|cost|attempts|checks|sources|feeds|settings|plan|query|bulk"
    "|actions|help|static"
)
PAGES = re.compile(
    rf"/(index\.json)?|/({FOLDERS})(\.json|/.*)?|/(login(/start|/callback)?|logout|open|favicon\.ico)"
)
PROGRAMS = re.compile(r"/(v1|schema)/.*|/(metrics|livez|readyz|openapi\.json)")


def is_for_pages(scope: Scope) -> bool:
    """Also an unknown address that a person typed: the answer is a page, too."""
    path = scope["path"]
    if PAGES.fullmatch(path):
        return True
    is_of_a_person = scope["method"] == "GET" and "text/html" in Headers(scope=scope).get(
        "accept", ""
    )
    return is_of_a_person and not PROGRAMS.fullmatch(path)
