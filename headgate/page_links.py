"""Links from a notebook to the pages of the service, in the branch of the value that is shown."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from urllib.parse import quote, urlencode, urlsplit

from controlplane.core.model.branches import MAIN
from headgate.html import text


@dataclass(frozen=True, slots=True)
class PageLinks:
    """`url`: the address of the service. None: an API of our own, which ends with this process, so
    names stay plain text. They stay so, too, where the address is not of a page or has a password.
    """

    url: str | None = None
    branch: str = MAIN

    def of_dataflow(self, name: str) -> str:
        """HTML of a dataflow's name."""
        return self._link(f"/flows/{quote(name)}", name)

    def of_dataset(self, name: str) -> str:
        """HTML of a dataset's name."""
        return self.around_dataset(name, text(name))

    def around_dataset(self, name: str, content: str) -> str:
        """HTML or SVG as a link to the page of a dataset."""
        return self._around(f"/datasets/{quote(name)}", content)

    def of_generation(self, dataset: str, generation: int) -> str:
        """HTML of a generation's number. Its page compares the generation with the one before."""
        if generation < 2:
            return text(generation)
        compared = {"a": str(generation - 1), "b": str(generation)}
        return self._link(f"/datasets/{quote(dataset)}/compare", str(generation), compared)

    def _link(self, path: str, label: str, query: dict[str, str] | None = None) -> str:
        return self._around(path, text(label), query)

    def _around(self, path: str, content: str, query: dict[str, str] | None = None) -> str:
        if self.url is None or not _is_of_pages(self.url):
            return content
        fields = dict(query or {})
        if self.branch != MAIN:
            fields["branch"] = self.branch
        address = f"{self.url}{path}{'?' if fields else ''}{urlencode(fields)}"
        return f'<a href="{escape(address)}" target="_blank" rel="noopener">{content}</a>'


def _is_of_pages(url: str) -> bool:
    """Whether a browser opens it as a page, and a saved notebook may hold it."""
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and parts.password is None
