"""Pieces of Markdown for comments of pull requests."""

from __future__ import annotations

from controlplane.cli.output import printable


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def fence(text: str) -> str:
    """Longer than any fence in the text."""
    mark = "```"
    while mark in text:
        mark += "`"
    return mark


def folded(title: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{escaped(title)}</summary>\n", *lines, "\n</details>\n"]


def escaped(text: str) -> str:
    """Text of unknown origin within a line of Markdown."""
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in ("\\", "|", "*", "_", "`", "[", "]", "~"):
        plain = plain.replace(mark, f"\\{mark}")
    return plain
