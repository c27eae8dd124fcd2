"""Why a dataset is as it is, as HTML: its standing, then the chain of causes as on its page."""

from __future__ import annotations

from controlplane.cli import why_views
from controlplane.cli.output import Lines, partition_name
from controlplane.core.explain.listed_causes import listed_causes
from controlplane.core.model.answers import WhyAnswer, WhyNode
from headgate import html
from headgate.answer_cells import state, when
from headgate.page_links import PageLinks

MOST_CAUSES = 40  # as on the page


def why_html(answer: WhyAnswer, links: PageLinks, *, shows_all: bool = False) -> str:
    """HTML of the whole answer. The chain replaces the tree of the command line."""
    without_tree: WhyAnswer = {**answer, "tree": None}
    lines = html.view_parts([Lines(why_views.facts(without_tree, shows_all=shows_all))])
    name, partition = links.of_dataset(answer["dataset"]), answer["partition"]
    place = f"/{html.text(partition_name(partition))}" if partition else ""
    generation = links.of_generation(answer["dataset"], answer["generation"])
    head = f"<b>{name}{place}</b> {state(answer['state'])}, generation {generation}"
    causes = [
        _cause(node, links)
        for _, node in listed_causes(answer["tree"])
        if node["cause"] or node["pending"]
    ]
    chain = f'<ol class="why">{"".join(causes[:MOST_CAUSES])}</ol>'
    left_out = len(causes) - MOST_CAUSES
    omission = f"<i>{left_out:,} more causes are not shown</i>" if left_out > 0 else ""
    return html.notebook_html([f"<div>{head}</div>", *lines, chain, omission])


def _cause(node: WhyNode, links: PageLinks) -> str:
    kind = html.text(node["cause"] or "pending")
    sentence = f"{html.text(node['sentence'])}{_partitions(node)}"
    at = "" if node["at"] is None else f" {when(node['at'])}"
    return f"<li>{links.of_dataset(node['dataset'])} <i>{kind}</i><p>{sentence}{at}</p></li>"


def _partitions(node: WhyNode) -> str:
    """How many partitions changed, or the name of the only one."""
    if node["count"] > 1:
        return f", {node['count']:,} partitions"
    if node["partitions"] and node["partitions"][0]:
        return f", partition <code>{html.text(partition_name(node['partitions'][0]))}</code>"
    return ""
