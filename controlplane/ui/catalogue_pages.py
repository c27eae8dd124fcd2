"""The page of all datasets: words, what they have in common, and where the words were found."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.routing import Route

from controlplane.core import search_words
from controlplane.core.model.answers.explore import Catalogue, FacetName
from controlplane.operations.explore.catalogue import FACETS, SORTS, Sort, catalogue
from controlplane.operations.inspect.hidden import visible, words
from controlplane.ui.names import number_of
from controlplane.ui.page import Page, both
from controlplane.ui.page_request import PageRequest

# These have columns of their own
IN_PLAIN_SIGHT = frozenset({"name", "description", "state", "is", "tag", "owner"})
LABELS: Mapping[FacetName, str] = {
    "state": "State",
    "is": "Freshness",
    "kind": "Kind",
    "flow": "Dataflow",
    "owner": "Owner",
    "tag": "Tag",
}


def _chosen(page_request: PageRequest) -> dict[FacetName, str]:
    return {name: value for name in FACETS if (value := page_request.query(name))}


def _sort(page_request: PageRequest) -> Sort:
    name = page_request.query("sort")
    return next((sort for sort in SORTS if sort == name), "")


def _catalogue(page_request: PageRequest) -> Catalogue:
    skip = number_of(page_request.query("skip")) or 0
    answer = catalogue(
        page_request.context,
        page_request.branch,
        page_request.query("q"),
        _chosen(page_request),
        sort=_sort(page_request),
        skip=skip,
    )
    sent = page_request.request.url.query
    return {
        **answer,
        "items": visible(page_request.context, answer["items"]),
        "facets": [
            {
                **facet,
                "values": [
                    {
                        **facet_value,
                        "value": words(page_request.context, facet_value["value"], sent),
                    }
                    for facet_value in facet["values"]
                ],
            }
            for facet in answer["facets"]
        ],
    }


def _shown(page_request: PageRequest, page: Catalogue) -> Mapping[str, Any]:
    sort = _sort(page_request)

    def address(name: str | None = None, value: str | int = "") -> str:
        """The address of this page with another value of a facet, or another page number."""
        chosen: dict[str, str] = {
            str(facet): chosen_value for facet, chosen_value in page["chosen"].items()
        }
        fields = {
            "q": page["query"],
            **chosen,
            "sort": sort,
            **({} if name is None else {name: str(value)}),
        }
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"/datasets?{query}" if query else "/datasets"

    return {
        "address": address,
        "labels": LABELS,
        "sort": sort,
        "plain": IN_PLAIN_SIGHT,
        "words": [
            word.text
            for word in search_words.words_of(page["query"])
            if word.field not in ("state", "is")
        ],
    }


def _command(page_request: PageRequest) -> str:
    words = [page_request.query("q")] if page_request.query("q") else []
    words += [
        f"{name}:{value}"
        for name, value in _chosen(page_request).items()
        if name in search_words.PREFIXES
    ]
    return (
        f"headgate search {' '.join(map(shlex.quote, words))}".rstrip()
        if words
        else "headgate status"
    )


DATASETS = Page("datasets.html", _catalogue, _shown, _command)
ROUTES: list[Route] = [*both("/datasets", DATASETS)]
