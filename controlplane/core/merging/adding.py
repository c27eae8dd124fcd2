"""A component more in the text of a blueprint: all that is there stays as it is, to the letter."""

from __future__ import annotations

from controlplane.core.merging.spans import split

INDENT = 2


def sql_component(name: str, sql: str, indent: int = INDENT) -> str:
    """A transform by SQL as lines of YAML, whose name stands `indent` to the right."""
    pad = " " * indent
    lines = [line.rstrip() for line in sql.strip().rstrip(";").rstrip().splitlines()]
    body = "\n".join(f"{pad}      {line}" if line else "" for line in lines)
    return f"{pad}{name}:\n{pad}  transform:\n{pad}    sql: |\n{body}\n"


def new_dataflow(dataflow: str, name: str, sql: str) -> str:
    """A blueprint of one transform."""
    return f"dataflow: {dataflow}\ncomponents:\n{sql_component(name, sql)}"


def with_transform(text: str, name: str, sql: str) -> str | None:
    """The blueprint with a transform behind its last component; None where its components do not
    begin lines."""
    parts = split(text)
    if parts is None:
        return None
    indents = parts.indents
    if len(indents) != 1:
        return None
    ended = text if text.endswith("\n") else text + "\n"
    before = ended[: len(ended) - len(parts.tail.text)].rstrip("\n")
    return f"{before}\n\n{sql_component(name, sql, min(indents) - 1)}{parts.tail.text}"
