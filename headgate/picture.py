"""A dataflow's graph as one SVG element, which needs nothing beside it: no script, no file, no
style of a page.

Lines and words have the colour of the notebook's text and no box has a ground, so it is the same in
a light and in a dark theme.
"""

from __future__ import annotations

from controlplane.core.model.answers.explore import GraphAnswer, GraphNode
from controlplane.ui import draw
from headgate.html import text
from headgate.page_links import PageLinks

# Seen on white and on black (3 to 1 at least).
COLOURS = {
    "up_to_date": "#2a9d57",
    "stale": "#c27c0e",
    "building": "#3b82f6",
    "failed": "#e04f4f",
    "blocked": "#b565d8",
}
RESTING = "#808080"
DASHES = {"by": "7 4", "previous": "1.5 4", "copy": "3 3", "quarantine": "3 3"}
BAR = {"done": COLOURS["up_to_date"], "todo": COLOURS["stale"], "bad": COLOURS["failed"]}
WAYS = {
    "each": "partition by partition",
    "by": "by key",
    "all": "all of it",
    "previous": "its own past",
    "copy": "a copy",
    "quarantine": "rows that were refused",
}
FONT = 'font-family="system-ui,sans-serif"'


def graph(answer: GraphAnswer, pages: PageLinks | None = None) -> str:
    """Datasets and exports, and how they read each other. Boxes lead to their pages where there are
    pages. Nothing of none, and of more than can be looked at."""
    if not 0 < len(answer["nodes"]) <= draw.BOXES:
        return ""
    boxes = [_box(node) for node in answer["nodes"]]
    links = [
        draw.GraphLink(edge["from"], edge["to"], edge["mode"], edge["reason"])
        for edge in answer["edges"]
    ]
    drawn = draw.graph(boxes, links)
    titles = {node["name"]: _title(node) for node in answer["nodes"]}
    size = (
        f'width="{drawn.width}" height="{drawn.height}" viewBox="0 0 {drawn.width} {drawn.height}"'
    )
    label = f"graph of {answer['dataflow'] or 'all dataflows'}, {len(boxes)} boxes"
    style = 'style="max-width:100%;height:auto;display:block" fill="none" stroke="none"'
    parts = [_link(link) for link in drawn.links]
    for box in drawn.boxes:
        name = box.box.name
        drawn_box = _drawn(box, drawn.sizes.width, drawn.sizes.height, titles[name])
        parts.append((pages or PageLinks()).around_dataset(name, drawn_box))
    head = (
        f'xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{text(label)}" {size} {style}'
    )
    return f"<svg {head}>{''.join(parts)}</svg>"


def _box(node: GraphNode) -> draw.Box:
    share = node["share"]
    total = max(1, sum((share["done"], share["to_do"], share["failed"])))
    part = draw.PartitionShares(
        share["done"] / total, share["to_do"] / total, share["failed"] / total
    )
    return draw.Box(
        node["name"], node["kind"], node["state"], _sub(node), part, faint=node["outside"]
    )


def _sub(node: GraphNode) -> str:
    if node["outside"]:
        return f"of {node['dataflow']}"
    if node["kind"] == "write":
        return "copy"
    return f"{draw.human(node['rows'])} rows" if node["partitions"] else "nothing yet"


def _title(node: GraphNode) -> str:
    reason = f" ({node['reason']})" if node["reason"] else ""
    return f"{node['name']}: {_words(node['state'])}{reason}"


def _words(state: str) -> str:
    return state.replace("_", " ")


def _link(link: draw.DrawnLink) -> str:
    dash = f' stroke-dasharray="{DASHES[link.link.mode]}"' if link.link.mode in DASHES else ""
    width = "3.5" if link.link.mode == "each" else "1.8"
    line = f'<path d="{link.path}" stroke="currentColor" stroke-width="{width}"{dash}/>'
    ends = f"{link.link.source} → {link.link.target}: {WAYS.get(link.link.mode, link.link.mode)}"
    return f'<g opacity=".55"><title>{text(ends)}</title>{line}<path d="{link.tip}" fill="currentColor"/></g>'


def _drawn(drawn: draw.DrawnBox, width: float, height: float, title: str) -> str:
    """A node as SVG. Its state is shown in words, and by a colour."""
    colour = COLOURS.get(drawn.box.state, RESTING)
    faint = ' opacity=".6"' if drawn.box.faint else ""
    bars = "".join(
        f'<rect x="{x}" y="{height - 10}" width="{wide}" height="4" rx="2" fill="{BAR[kind]}"/>'
        for kind, x, wide in drawn.bar
    )
    state = f"{drawn.box.sub} · {_words(drawn.box.state)}"
    return (
        f'<g transform="translate({drawn.x} {drawn.y})"{faint}><title>{text(title)}</title>'
        f'<rect width="{width}" height="{height}" rx="9" stroke="{colour}" stroke-width="1.6"/>'
        f'<g fill="currentColor" {FONT}><text x="12" y="23" font-size="13" font-weight="600">{text(drawn.short)}</text>'
        f'<text x="12" y="41" font-size="11" opacity=".75">{text(state)}</text></g>{bars}</g>'
    )
