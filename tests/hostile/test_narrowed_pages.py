"""A session of one dataflow looks at every page and presses every button of another one: no page
and no twin of one has a byte of its names, what must not be seen is answered as what is not there,
and nothing of it changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx2
import pytest

from controlplane.core.rights import TokenScope
from controlplane.operations.desired import blueprints
from tests.hostile.test_narrowed import FORBIDDEN, NAMES, SHOP, WITHIN, Place, place
from tests.unit.expectations.world import HEAD
from tests.unit.ui.test_pages import PATHS

__all__ = ["place"]

NAMED = (
    "/flows/{dataflow}",
    "/flows/{dataflow}/blueprint",
    "/flows/{dataflow}?on={dataset}",
    "/flows/{dataflow}?wave={run}",
    "/flows?q={dataflow}",
    "/datasets?q={dataflow}",
    "/datasets?flow={dataflow}",
    "/datasets/{dataset}",
    "/datasets/{dataset}?gen=1",
    "/datasets/{dataset}?tab=data",
    "/datasets/{dataset}?tab=checks",
    "/datasets/{dataset}?tab=history",
    "/datasets/{dataset}?tab=code",
    "/datasets/{dataset}/rows",
    "/find?q={dataset}",
    "/find?q={dataflow}",
    "/find?q={run}",
    "/datasets/{dataset}/partition?key=a.csv",
    "/datasets/{dataset}/partition?key=",
    "/datasets/{dataset}/compare",
    "/datasets/{dataset}/compare?a=1&b=1&rows=yes",
    "/datasets/{dataset}/profile",
    "/datasets/{dataset}/rollback?to=1",
    "/bulk?do=pause&on={dataset}&on={dataflow}",
    "/bulk?do=resume&on={dataset}",
    "/bulk?do=retry&on={dataset}",
    "/bulk?do=compute-again&on={dataset}",
    "/activity?flow={dataflow}",
    "/activity?dataset={dataset}",
    "/activity/{run}",
    "/cost?flow={dataflow}",
    "/branches/main...{other}",
    "/plan?flow={dataflow}",
    "/query?table={dataset}",
    "/query/tables/{dataset}",
    "/query?of={dataset}",
)
PLAIN = (
    "/",
    "/flows",
    "/datasets",
    "/activity",
    "/activity?state=done",
    "/cost",
    "/branches",
    "/checks",
    "/sources",
    "/plan",
    "/query",
    "/query/tables",
    "/help/keys",
    "/help/tutorial",
    "/feeds",
    "/find",
    "/find?q=salaries",
    "/datasets?sort=updated",
)
CLOSED = ("/settings/tokens", "/settings/care")
BRANCHES = NAMES["branch"]
# Pages that name what their texts read
OWN_TEXTS = ("/flows/shop/blueprint", "/plan?flow=shop", "/datasets/shop.mixed")


def addresses() -> Iterator[tuple[str, ...]]:
    """Of each page with what is seen, with what is hidden, and with what is not there."""
    for path in (*PLAIN, *CLOSED):
        yield (path,)
        yield tuple(f"{path}?branch={branch}" for branch in BRANCHES)
    for path in NAMED:
        yield tuple(
            path.format(**{name: of[which] for name, of in NAMES.items()}) for which in range(3)
        )


def twin(path: str) -> str:
    bare, _, query = path.partition("?")
    return ("/index.json" if bare == "/" else f"{bare}.json") + (f"?{query}" if query else "")


def value(answer: httpx2.Response) -> Any:
    found = answer.json()
    if isinstance(found, dict):
        found.pop("request_id", None)
    return found


def said(answer: httpx2.Response, path: str) -> str:
    """Without the names that the address has, since a gap would tell that they are there; and
    without those that the text of a dataflow reads which is seen."""
    text = answer.text
    if path.startswith(OWN_TEXTS):
        text = re.sub(r"FROM payroll\.(salaries|wrong)", "", text)
    for name in sorted(re.findall(FORBIDDEN.pattern, path), key=len, reverse=True):
        text = text.replace(name, "")
    return text


def absent(text: str) -> str:
    """With names that nothing has in place of hidden ones."""
    for _, hidden, nothing in sorted(NAMES.values(), key=lambda three: -len(three[1])):
        text = text.replace(hidden, nothing)
    return text.replace("noother", "nobranch")


def test_every_page_of_the_pages_is_walked() -> None:
    def shape(path: str) -> str:
        return re.sub(
            r"/(shop|other)(\.[a-z_]+)?|/main\.\.\.[a-z0-9-]+|\{[a-z]+\}",
            "/X",
            path.partition("?")[0],
        )

    walked = {shape(path) for three in addresses() for path in three}
    assert {shape(path) for path in PATHS} - {shape(path) for path in walked} == set()


def test_no_page_has_a_hidden_name_and_hidden_is_as_not_there(place: Place) -> None:
    codes: dict[str, int] = {}
    with place.http() as http:
        for three in addresses():
            for path in three:
                page, json_of = (
                    http.get(path, headers={"Accept": "text/html"}),
                    http.get(twin(path)),
                )
                codes[path] = page.status_code
                assert page.status_code == json_of.status_code, (path, json_of.text)
                for answer in (page, json_of):
                    assert not FORBIDDEN.search(said(answer, path)), (
                        path,
                        FORBIDDEN.findall(said(answer, path)),
                    )
                    assert not FORBIDDEN.search(
                        json.dumps(dict(answer.headers)).replace(path, "")
                    ), path
            if len(three) == 3:
                hidden, nothing = (http.get(twin(path)) for path in three[1:])
                assert hidden.status_code == nothing.status_code, three
                assert absent(json.dumps(value(hidden))) == absent(json.dumps(value(nothing))), (
                    three
                )
    assert set(codes.values()) <= {200, 403, 404, 410}
    assert {path for path, code in codes.items() if code == 403} == {
        path
        for path in codes
        if path.startswith(CLOSED) and "secretdev" not in path and "nobranch" not in path
    }
    seen = [path for path, code in codes.items() if code == 200]
    assert set(PLAIN) <= set(seen)
    for path in NAMED[:8]:
        assert path.format(**{name: of[0] for name, of in NAMES.items()}) in seen, path


def test_numbers_count_what_is_seen(place: Place) -> None:
    with place.http() as http, place.http(TokenScope(), "data") as whole:
        home, every = http.get("/index.json").json(), whole.get("/index.json").json()
        assert [flow["name"] for flow in home["dataflows"]] == ["shop"]
        assert {flow["name"] for flow in every["dataflows"]} == {"shop", "payroll"}
        assert home["dataflows"][0] == next(
            flow for flow in every["dataflows"] if flow["name"] == "shop"
        )
        assert http.get("/flows.json").json()["total"] == 1
        assert http.get("/datasets.json").json()["total"] == 4
        (flows,) = (
            one for one in http.get("/datasets.json").json()["facets"] if one["name"] == "flow"
        )
        assert [(one["value"], one["count"]) for one in flows["values"]] == [("shop", 4)]
        assert http.get("/datasets.json?q=ledger").json()["found"] == 0
        assert [one["name"] for one in http.get("/branches.json").json()["items"]] == [
            "main",
            "pr-1",
        ]
        wish = http.get("/bulk.json?do=compute-again&on=shop.doubled").json()["foreseen"]
        assert wish["readers"] == 0, "shop.doubled is read by a hidden dataset"
        assert {
            one["name"] for one in http.get("/flows/shop.json").json()["components"]["items"]
        } == {f"shop.{name}" for name in ("orders", "doubled", "mixed", "stuck")}


def test_paths_of_rows_that_were_adopted_name_no_hidden_dataset(place: Place) -> None:
    with place.http() as http:
        for path in (
            "/v1/branches/main/datasets/shop.mixed/partition",
            "/datasets/shop.mixed/partition.json",
        ):
            answer = http.get(f"{path}?key=a.csv")
            assert "(hidden)/_frags" in answer.text
            assert not FORBIDDEN.search(answer.text)


def test_a_dataflow_that_is_seen_in_part(place: Place) -> None:
    with place.http(TokenScope(datasets=("shop.doubled",))) as http:
        flow = http.get("/flows/shop.json").json()
        assert [one["name"] for one in flow["components"]["items"]] == ["shop.doubled"]
        assert flow["components"]["edges"] == []
        assert flow["summary"]["datasets"] == 1
        assert http.get("/datasets/shop.doubled.json").json()["code"] is None, "it names others"
        for path in ("/flows/shop", "/datasets/shop.doubled", "/flows", "/"):
            page = http.get(path)
            assert page.status_code == 200
            assert not re.search(r"mixed|stuck|orders", page.text), path
        assert http.get("/flows/shop/blueprint").status_code == 404
        assert http.get("/plan?flow=shop").status_code == 404
        assert http.get("/datasets/shop.orders").status_code == 404


def test_branches_that_are_not_main(place: Place) -> None:
    with place.http(TokenScope(branches=("pr-*",))) as http:
        assert "branch <b>pr-1</b>" in http.get("/").text
        assert http.get("/?branch=main").status_code == 404
        assert http.get("/branches/main...pr-1").status_code == 404
        assert [one["name"] for one in http.get("/branches.json").json()["items"]] == ["pr-1"]


@pytest.mark.parametrize("role", ["operate", "edit"])
def test_buttons_on_what_is_hidden_change_nothing(place: Place, role: str) -> None:
    def forms(dataset: str, flow: str, branch: str) -> Iterator[tuple[str, dict[str, str]]]:
        for action, target in product(
            ("refresh", "compute-again", "retry", "pause", "resume"), (dataset, flow)
        ):
            yield f"/actions/{action}", {"target": target}
        yield "/actions/accept-deletes", {"target": dataset}
        yield "/actions/retry-partition", {"target": dataset, "partition": "a.csv"}
        yield "/actions/roll-back", {"target": dataset, "to": "1"}
        yield "/actions/pause?branch=" + branch, {"target": "shop.doubled"}
        yield "/bulk", {"wish": "pause", "targets": f"{dataset} {flow}"}
        if role == "edit":
            yield "/actions/revert", {"target": flow, "to": "1"}
            yield "/actions/branch", {"name": "pr-9", "source": branch}
            yield "/actions/merge", {"source": branch, "into": "main"}
            yield (
                "/plan",
                {"flow": flow, "text": f"dataflow: {flow}\ncomponents: {{}}\n", "do": "plan"},
            )
            yield (
                "/plan",
                {"flow": "", "text": f"dataflow: {flow}\ncomponents: {{}}\n", "do": "check"},
            )
            yield "/query", {"sql": f"SELECT * FROM {dataset}", "do": "run"}
            yield (
                "/query",
                {"sql": f"SELECT * FROM {dataset}", "do": "promote", "dataset": "shop.busy"},
            )

    with place.world.store.read() as tx:
        before = (
            tx.blueprints.paused("main"),
            tx.blueprints.forces("main"),
            tx.blueprints.revisions("main"),
            sorted(tx.branches.all()),
        )
    which = [[NAMES[kind][at] for kind in ("dataset", "dataflow", "branch")] for at in (1, 2)]
    headers = {"Accept": "application/json"}
    with place.http(WITHIN, role) as http:
        for number, ((path, form), (elsewhere, other)) in enumerate(
            zip(forms(*which[0]), forms(*which[1]), strict=True)
        ):
            once = {"once": f"{number:032x}"}
            hidden = http.post(path, data={**form, **once}, headers=headers)
            nothing = http.post(
                elsewhere, data={**other, "once": f"{number + 500:032x}"}, headers=headers
            )
            assert hidden.status_code == nothing.status_code, (
                path,
                form,
                hidden.text,
                nothing.text,
            )
            sent = " ".join((path, *form.values()))
            assert not FORBIDDEN.search(said(hidden, sent)), (path, form, hidden.text)
            if "json" in hidden.headers.get("content-type", ""):
                assert absent(json.dumps(value(hidden))) == json.dumps(value(nothing)), (path, form)
            assert hidden.status_code != 303, (path, form)
    with place.world.store.read() as tx:
        assert (
            tx.blueprints.paused("main"),
            tx.blueprints.forces("main"),
            tx.blueprints.revisions("main"),
            sorted(tx.branches.all()),
        ) == before


def test_a_narrowed_session_signs_in_and_presses_its_own_buttons(place: Place) -> None:
    with place.http(WITHIN, "operate") as http:
        form = {"target": "shop.doubled", "once": "1" * 32}
        assert http.post("/actions/pause", data=form).status_code == 303
        text = http.headers["authorization"].partition(" ")[2]
        link = http.post("/v1/session-links").json()
        assert link["path"].startswith("/open?key=")
    own = {"Sec-Fetch-Site": "same-origin"}
    with httpx2.Client(base_url=place.url, trust_env=False, timeout=60) as browser:
        assert browser.post("/login", data={"token": text}, headers=own).status_code == 303
        assert "shop" in browser.get("/").text
    with place.world.store.read() as tx:
        assert "shop.doubled" in tx.blueprints.paused("main")


TELLING = """
  told: {transform: {sql: 'SELECT k FROM doubled'}, description: see payroll.salaries, owner: payroll, tags: [payroll]}
"""
LIKE_FIELDS = """
dataflow: NAME
components:
  rows: {transform: {sql: 'SELECT k FROM shop.doubled'}}
  items: {transform: {sql: 'SELECT k FROM shop.doubled'}}
  state: {transform: {sql: 'SELECT k FROM shop.doubled'}}
  failed: {transform: {sql: 'SELECT no_such(k) AS k FROM shop.doubled'}}
"""


def seen_paths() -> list[str]:
    names = {name: of[0] for name, of in NAMES.items()}
    return [*PLAIN, *(path.format(**names) for path in NAMED)]


def test_words_of_what_is_seen_lose_hidden_names(place: Place) -> None:
    text = HEAD.format(home=place.world.home) + SHOP + TELLING
    blueprints.apply(place.world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])
    place.world.settle()
    with place.http() as http:
        for path in (
            *seen_paths(),
            "/datasets?q=see",
            "/datasets/shop.told",
            "/flows/shop?on=shop.told",
        ):
            for answer in (http.get(path), http.get(twin(path))):
                assert answer.status_code in (200, 404), (path, answer.text)
                if not path.startswith((*OWN_TEXTS, "/branches/")):  # which have all of it
                    assert not FORBIDDEN.search(said(answer, path)), (
                        path,
                        FORBIDDEN.findall(said(answer, path)),
                    )


def test_what_is_hidden_changes_nothing_of_what_is_seen_whatever_it_is_called(place: Place) -> None:
    def look(http: httpx2.Client) -> dict[str, Any]:
        found = {}
        for path in seen_paths():
            page, json_of = http.get(path), http.get(twin(path))
            assert page.status_code == json_of.status_code in (200, 404), (path, page.text)
            found[path] = re.sub(
                r'"(expires_at|since|as_of|at|due|seconds|behind_s|listed|age_s)": [^,}]*',
                "",
                json.dumps(value(json_of)),
            )
        return found

    with place.http() as http:
        before = look(http)
        sources = [
            blueprints.SentBlueprint(f"/{name}.yaml", LIKE_FIELDS.replace("NAME", name), {})
            for name in ("items", "facets", "decisions", "schema")
        ]
        blueprints.apply(place.world.ctx, "main", sources)
        blueprints.apply(
            place.world.ctx,
            "pr-1",
            [
                blueprints.SentBlueprint(
                    "/newsecret.yaml", LIKE_FIELDS.replace("NAME", "newsecret"), {}
                )
            ],
        )
        place.world.ran()
        after = look(http)
        for path in before:
            assert after[path] == before[path], path
        assert "newsecret" not in http.get("/branches").text + http.get("/v1/branches").text
        with place.http(TokenScope(datasets=("shop.doubled",))) as part:
            beside = SHOP + "  items: {transform: {sql: 'SELECT k FROM orders'}}\n"
            shop = (
                HEAD.format(home=place.world.home)
                + beside
                + beside.replace("items", "rows").split("\n")[-2]
                + "\n"
            )
            blueprints.apply(
                place.world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", shop, {})]
            )
            for path in (
                "/",
                "/flows",
                "/flows/shop",
                "/datasets",
                "/datasets/shop.doubled",
                "/activity",
                "/plan",
            ):
                assert part.get(path).status_code == 200, path
        alone = HEAD.format(home=place.world.home) + SHOP.split("  mixed:")[0]
        blueprints.apply(
            place.world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", alone, {})]
        )
        blueprints.delete(place.world.ctx, "main", "payroll")
        place.world.ran()
        for path in ("/activity", "/", "/flows/shop"):
            assert not FORBIDDEN.search(http.get(path).text), path
        assert not FORBIDDEN.search(http.get("/v1/branches/main/runs").text)


def test_the_text_of_what_is_seen_in_part_opens_no_query(place: Place) -> None:
    with place.http(TokenScope(datasets=("shop.doubled",))) as http:
        for path in (
            "/query.json?of=shop.doubled",
            "/v1/branches/main/datasets/shop.doubled/query",
        ):
            answer = http.get(path)
            assert answer.status_code in (403, 404), path
            assert "orders" not in answer.text
