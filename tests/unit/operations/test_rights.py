"""Who may do what, and what is left of an answer."""

from __future__ import annotations

import pytest

from controlplane.core.errors import BadScope
from controlplane.core.name_redaction import NameRedaction
from controlplane.core.rights import ROLES, Principal, TokenScope, check, may, may_see_part


def within(
    *dataflows: str, datasets: tuple[str, ...] = (), branches: tuple[str, ...] = ()
) -> Principal:
    return Principal(ROLES["data"], TokenScope(dataflows, datasets, branches))


@pytest.mark.parametrize(
    ("who", "seen", "hidden"),
    [
        (within(), ["shop", "shop.orders", "x.y"], []),
        (
            within("shop"),
            ["shop", "shop.orders"],
            ["shopping", "payroll", "payroll.shop", "shopping.orders"],
        ),
        (
            within("sales_*", "shop"),
            ["sales_", "sales_eu", "sales_eu.a", "shop.a"],
            ["sales", "sales.a", "eu_sales_a"],
        ),
        (within("s?op"), ["shop", "stop.a"], ["shoop", "sop"]),
        (
            within(datasets=("shop.o*",)),
            ["shop.orders", "shop.o"],
            ["shop", "shop.dear", "other.orders"],
        ),
        (within(datasets=("shop.*",)), ["shop", "shop.orders"], ["shop2", "shop2.orders"]),
        (within(datasets=("*",)), ["shop", "shop.orders"], []),
        (within(datasets=("*.orders",)), ["shop.orders", "b.orders"], ["shop", "shop.dear"]),
        (
            within("shop", datasets=("shop.*", "payroll.*")),
            ["shop", "shop.a"],
            ["payroll", "payroll.a"],
        ),
        (within("shop", datasets=("payroll.a",)), [], ["shop", "shop.a", "payroll.a"]),
    ],
)
def test_all_kinds_of_patterns_have_to_fit(
    who: Principal, seen: list[str], hidden: list[str]
) -> None:
    def has(name: str) -> bool:
        return may(who, "data", dataset=name) if "." in name else may(who, "data", dataflow=name)

    assert [name for name in seen if not has(name)] == []
    assert [name for name in hidden if has(name)] == []


def test_a_permission_and_a_branch_have_to_be_there() -> None:
    who = within(branches=("main", "pr-*"))
    assert [may(who, "data", branch=b) for b in ("main", "pr-1", "dev", "pr")] == [
        True,
        True,
        False,
        False,
    ]
    assert may(who, "view", dataset="a.b", branch="pr-1")
    assert not may(who, "edit", branch="main")
    assert not may(who, "operate")


def test_a_dataflow_is_seen_in_part_where_one_of_its_datasets_may_be() -> None:
    who = within(datasets=("shop.orders", "b*.x"))
    assert [may_see_part(who, name) for name in ("shop", "bank", "payroll")] == [True, True, False]
    assert not may_see_part(Principal(frozenset()), "shop")


@pytest.mark.parametrize(
    ("roles", "token_scope"),
    [
        (["admin"], TokenScope(("shop",))),
        (["view", "admin"], TokenScope(branches=("main",))),
        (["driver"], TokenScope(("shop",))),
        (["view"], TokenScope(("shop.orders",))),
        (["view"], TokenScope(datasets=("shop",))),
        (["view"], TokenScope(("[a-z]*",))),
        (["view"], TokenScope(("",))),
        (["view"], TokenScope(branches=("a/b",))),
    ],
)
def test_what_cannot_be_narrowed_so_is_refused(roles: list[str], token_scope: TokenScope) -> None:
    with pytest.raises(BadScope):
        check(roles, token_scope)


def test_what_can_be() -> None:
    check(
        ["view", "operate"],
        TokenScope(("sales_*", "s?op"), ("*", "sales.*"), ("pr-*", "release.1")),
    )
    check(["admin", "driver"], TokenScope())


VEIL = NameRedaction(
    within("shop"), frozenset({"payroll", "hr"}), frozenset(), frozenset({"secret"})
)


def test_words_have_gaps_and_contents_stay() -> None:
    answer = {
        "dataset": "shop.orders",
        "state": "hr",
        "next": "hr",
        "objects": [{"location": "lake/payroll/a", "objects": ["payroll.a"], "partitions": 1}],
        "matches": [{"field": "description", "text": "reads hr.salaries"}],
        "files": [{"path": "lake/hr/salaries/_frags/1.parquet"}],
        "reason": "waits for hr.salaries, and payroll; hrx and secret_x are others, secret is one",
        "text": "reads hr.salaries",
        "columns": ["hr"],
        "partitions": ["payroll.a", "hr"],
    }
    assert VEIL.over(answer) == {  # type: ignore[arg-type]  # mypy takes lists of dicts for another type
        "dataset": "shop.orders",
        "state": "hr",
        "next": "hr",
        "objects": [{"location": "lake/(hidden)/a", "objects": ["payroll.a"], "partitions": 1}],
        "matches": [{"field": "description", "text": "reads (hidden)"}],
        "files": [{"path": "lake/(hidden)/_frags/1.parquet"}],
        "reason": "waits for (hidden), and (hidden); hrx and secret_x are others, (hidden) is one",
        "text": "reads hr.salaries",
        "columns": ["hr"],
        "partitions": ["payroll.a", "hr"],
    }


def test_components_of_a_dataflow_that_is_seen_in_part_have_short_names() -> None:
    name_redaction = NameRedaction(
        within(datasets=("shop.orders",)), datasets=frozenset({"shop.dear"})
    )
    answer = {"reason": "dear waits for shop.dear, dearest", "name": "shop.orders"}
    assert name_redaction.over(answer) == {  # type: ignore[arg-type]  # mypy takes dicts for another type
        "reason": "(hidden) waits for (hidden), dearest",
        "name": "shop.orders",
    }


def test_a_problem_has_gaps_but_for_what_was_sent() -> None:
    found = VEIL.over(
        {"detail": "hr.a reads payroll", "errors": [{"hint": "hr"}]}, "GET /x?q=payroll"
    )
    assert found == {"detail": "(hidden) reads payroll", "errors": [{"hint": "(hidden)"}]}
