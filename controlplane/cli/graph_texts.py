"""Graphs as texts that other programs draw: Graphviz' DOT, and Mermaid. Pure.

Names are made of letters, digits, `_` and `.`; tags may be anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a command that only says what it takes needs none of them
    from controlplane.core.model.answers.explore import GraphAnswer

SHAPES: Mapping[str, str] = {"read": "cylinder", "write": "cds", "python": "component", "quarantine": "note"}
DASHED = ("by", "previous", "copy", "quarantine")
COLOURS: Mapping[str, str] = {
    "up_to_date": "#0f7350",
    "stale": "#8a5a00",
    "building": "#1f5fbf",
    "failed": "#b3261e",
    "blocked": "#7b3fa0",
    "waiting": "#4a6572",
    "paused": "#5d6663",
    "held": "#5d6663",
}


def dot(value: GraphAnswer) -> str:
    """For Graphviz: `headgate graph -o dot | dot -Tsvg`."""
    lines = ["digraph headgate {", "  rankdir=LR;", "  node [shape=box, fontname=Helvetica];"]
    lines += [f"  {line}" for line in _dot_lines(value)]
    return "\n".join([*lines, "}", ""])


def _dot_lines(value: GraphAnswer) -> Iterator[str]:
    for node in value["nodes"]:
        shape, colour = SHAPES.get(node["kind"], "box"), COLOURS[node["state"]]
        label = f"{node['name']}\n{node['state']}"
        yield f"{_quoted(node['name'])} [label={_quoted(label)}, shape={shape}, color={_quoted(colour)}];"
    for group in value["groups"]:
        label = f"{group['name'] or '(none)'}\n{group['members']} datasets, {group['state']}"
        colour = COLOURS[group["state"]]
        yield f"{_quoted(group['name'])} [label={_quoted(label)}, shape=folder, color={_quoted(colour)}];"
    for edge in value["edges"]:
        style = ", style=dashed" if edge["mode"] in DASHED else ""
        yield f"{_quoted(edge['from'])} -> {_quoted(edge['to'])} [label={_quoted(edge['mode'])}{style}];"
    for link in value["group_edges"]:
        yield f"{_quoted(link['from'])} -> {_quoted(link['to'])} [label={_quoted(str(link['count']))}];"


def _quoted(text: str) -> str:
    """A string of DOT: only `"` and `\\` are escaped, and a line feed is written as an escape."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def mermaid(value: GraphAnswer) -> str:
    """For Markdown of GitHub and GitLab: in a block of the language `mermaid`."""
    lines = ["flowchart LR", *(f"  {line}" for line in _mermaid_lines(value))]
    return "\n".join([*lines, ""])


def _mermaid_lines(value: GraphAnswer) -> Iterator[str]:
    """Nodes have numbers for names: a dataset may be called as a word of Mermaid."""
    names = [node["name"] for node in value["nodes"]] + [group["name"] for group in value["groups"]]
    ids = {name: f"n{number}" for number, name in enumerate(names)}
    for node in value["nodes"]:
        yield f"{ids[node['name']]}[{_label(node['name'], node['state'])}]:::{node['state']}"
    for group in value["groups"]:
        summary = f"{group['members']} datasets, {group['state']}"
        yield f"{ids[group['name']]}[{_label(group['name'] or '(none)', summary)}]:::{group['state']}"
    for edge in value["edges"]:
        arrow = "-.->" if edge["mode"] in DASHED else "-->"
        yield f"{ids[edge['from']]} {arrow}|{edge['mode']}| {ids[edge['to']]}"
    for link in value["group_edges"]:
        yield f"{ids[link['from']]} -->|{link['count']}| {ids[link['to']]}"
    states = {node["state"] for node in value["nodes"]} | {group["state"] for group in value["groups"]}
    for state in sorted(states):
        yield f"classDef {state} stroke:{COLOURS[state]}"


def _label(name: str, summary: str) -> str:
    """Mermaid reads entities in its strings, and markup; of a tag nothing is to be one."""
    plain = "".join(c if c.isalnum() or c in " _.,-()" else f"#{ord(c)};" for c in name)
    return f'"{plain}<br>{summary}"'
