"""Which requests are for pages. Apart from the pages themselves, which are loaded when somebody opens one."""

from __future__ import annotations

import re

PAGES = re.compile(r"/(index\.json)?|/(flows|datasets|help|static)(\.json|/.*)?|/(login|logout|open|favicon\.ico)")


def is_for_pages(path: str) -> bool:
    return PAGES.fullmatch(path) is not None
