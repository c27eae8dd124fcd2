"""Pages of branches: which there are, and how two of them differ."""

from __future__ import annotations

from starlette.routing import Route

from controlplane.core.errors import NotFound
from controlplane.operations.desired import branches
from controlplane.ui import work_views
from controlplane.ui.names import BRANCH
from controlplane.ui.page import Page, both, nothing
from controlplane.ui.page_request import BETWEEN, PageRequest
from controlplane.ui.work_values import BranchesPage, ComparePage


def _branches(page_request: PageRequest) -> BranchesPage:
    return work_views.all_branches(page_request.context, page_request.branches)


def _two(page_request: PageRequest) -> tuple[str, str]:
    base, between, other = str(page_request.request.path_params["name"]).partition(BETWEEN)
    if not (between and BRANCH.fullmatch(base) and BRANCH.fullmatch(other)):
        raise NotFound("two branches are compared at an address such as /branches/main...dev")
    there = page_request.branches
    for name in (base, other):
        if name not in there:
            raise branches.no_branch(name)
    return base, other


def _compared(page_request: PageRequest) -> ComparePage:
    base, other = _two(page_request)
    may_merge = page_request.is_of_all_names  # a merge brings all that was edited
    return work_views.compared(
        page_request.context, base, other, page_request.query("after") or None, may_merge=may_merge
    )


BRANCHES = Page(
    "branches.html", _branches, nothing, lambda _: "headgate branch list", is_of_branch=False
)
COMPARED = Page(
    "compared.html",
    _compared,
    nothing,
    lambda page_request: "headgate branch diff {} {}".format(*_two(page_request)),
    is_of_branch=False,
)
ROUTES: list[Route] = [*both("/branches", BRANCHES), *both("/branches/{name}", COMPARED)]
