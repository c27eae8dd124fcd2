"""What an S3 key may read: branches, dataflows and datasets. Pure.

main            all of a branch
main/shop       a dataflow of it
main/shop/dear  a dataset
*/shop          a dataflow, in all branches
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.core.errors import BadScope

ANY = "*"
_SCOPE = re.compile(
    r"(?:\*|[A-Za-z0-9_][A-Za-z0-9._-]{0,99})(?:/(?:\*|[A-Za-z0-9_][A-Za-z0-9._-]{0,99})){0,2}"
)


@dataclass(frozen=True, slots=True)
class Scope:
    """Names, each of which may be `*` for all."""

    branch: str = ANY
    dataflow: str = ANY
    dataset: str = ANY

    def covers(self, branch: str, dataflow: str, dataset: str) -> bool:
        pairs = ((self.branch, branch), (self.dataflow, dataflow), (self.dataset, dataset))
        return all(scope in (ANY, name) for scope, name in pairs)

    def __str__(self) -> str:
        """As it is written, without the `*` at its end."""
        names = [self.branch, self.dataflow, self.dataset]
        while len(names) > 1 and names[-1] == ANY:
            names.pop()
        return "/".join(names)


def parse(text: str) -> Scope:
    """Raises BadScope. The names need not exist: they may come later."""
    if not _SCOPE.fullmatch(text):
        like = "a branch, dataflow and dataset such as main, main/shop, main/shop/orders or */shop"
        raise BadScope(f"{text[:100]!r} is no scope; write {like}")
    return Scope(*text.split("/"))


def allows(scopes: Iterable[Scope], branch: str, dataflow: str, dataset: str) -> bool:
    return any(scope.covers(branch, dataflow, dataset) for scope in scopes)
