"""Links and forms of a page that is about a branch: they stay in that branch.

In one place, after the template, so that no link of any template can leave the branch by being
forgotten. Values in templates are escaped, so a quotation mark in the text is always one of a
template.
"""

from __future__ import annotations

import re
from html import escape

from controlplane.core.model.branches import MAIN

LINK = re.compile(r'((?:href|action|hx-get|hx-post)=")(/(?!static/|v1/|logout|login|/)[^"#]*)')
FORM = re.compile(r"<form\b[^>]*>")
# A link to a branch of its own, such as in the list of branches
CHOSEN = re.compile(r"[?&;]branch=")


def within(html: str, branch: str) -> str:
    """The same page, whose links and forms name the branch."""
    if branch == MAIN:
        return html
    name = escape(branch)

    def linked(match: re.Match[str]) -> str:
        start, path = match.groups()
        if CHOSEN.search(path):
            return start + path
        return f"{start}{path}{'&amp;' if '?' in path else '?'}branch={name}"

    def filled(match: re.Match[str]) -> str:
        """A browser drops the query of the address of a form that only looks."""
        form = match[0]
        return (
            form
            if 'method="post"' in form
            else f'{form}<input type="hidden" name="branch" value="{name}">'
        )

    return FORM.sub(filled, LINK.sub(linked, html))
