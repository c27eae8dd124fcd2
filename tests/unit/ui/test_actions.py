"""Forms of pages: each wish is followed once, by who may, and comes back to its page."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import httpx2
import pytest

from controlplane.operations.desired import blueprints, trust
from tests.unit.api.world import serving
from tests.unit.ui.world import OTHER, Pages, pages

OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


def sign_in(http: httpx2.Client, token: str) -> None:
    assert http.post("/login", data={"token": token}, headers=OWN).status_code == 303


def forms(http: httpx2.Client, path: str) -> dict[str, dict[str, str]]:
    """Hidden fields of the forms of a page, by what they ask for."""
    text = http.get(path).text
    found = re.findall(
        r'<form class="act" action="/actions/([a-z-]+)"[^>]*>(.*?)</form>', text, re.DOTALL
    )
    return {
        action: dict(re.findall(r'name="(\w+)" value="([^"]*)"', body)) for action, body in found
    }


def audited(world: Pages) -> list[tuple[str, str, str]]:
    with world.services.store.read() as tx:
        return [
            (c.actor, c.action, c.target) for c in tx.audit.changes("main", 100) if c.actor == "ada"
        ]


def test_a_wish_is_followed_once_and_taken_back(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        pause = forms(http, "/datasets/shop.dear")["pause"]
        for _ in range(2):  # a double click
            answer = http.post("/actions/pause", data=pause, headers=OWN)
            assert (answer.status_code, answer.headers["location"]) == (303, "/datasets/shop.dear")
        assert audited(world) == [("ada", "pause", "shop.dear")]
        page = http.get(answer.headers["location"]).text
        assert "nothing more of it is begun" in page
        assert "nothing more of it is begun" not in http.get("/datasets/shop.dear").text, (
            "it is said once"
        )
        assert http.get("/datasets/shop.dear.json").json()["dataset"]["state"] == "paused"
        http.post("/actions/resume", data=forms(http, "/datasets/shop.dear")["resume"], headers=OWN)
        assert http.get("/datasets/shop.dear.json").json()["dataset"]["state"] == "up_to_date"


def test_a_form_without_its_proofs_does_nothing(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        pause = forms(http, "/flows/shop")["pause"]
        for fields, headers in (
            ({**pause, "csrf": "0" * 64}, OWN),
            (pause, {"Sec-Fetch-Site": "same-site"}),
            (pause, {"Origin": "http://evil.example"}),
        ):
            assert http.post("/actions/pause", data=fields, headers=headers).status_code == 403
        assert (
            http.post("/actions/pause", data={**pause, "once": "x"}, headers=OWN).status_code == 422
        )
        assert (
            http.post(
                "/actions/pause", data={**pause, "target": "no.such"}, headers=OWN
            ).status_code
            == 404
        )
        assert http.post("/actions/explode", data=pause, headers=OWN).status_code == 404
        away = http.post("/actions/refresh", data={**pause, "next": "//evil.example"}, headers=OWN)
        assert away.headers["location"] == "/"
    assert audited(world) == [("ada", "refresh", "shop")]


def test_a_wish_that_is_refused_says_why_and_may_come_again(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        form = {**forms(http, "/datasets/shop.dear")["pause"], "to": "99"}
        refused = http.post("/actions/roll-back", data=form, headers=OWN)
        assert refused.status_code == 404
        assert "generation 99" in refused.text
        answer = http.post(
            "/actions/roll-back", data={**form, "to": "1", "reason": "wrong prices"}, headers=OWN
        )
        assert answer.status_code == 303
        held = http.get("/datasets/shop.dear.json").json()["dataset"]["hold"]
        assert (held["generation"], held["actor"], held["reason"]) == (1, "ada", "wrong prices")


def test_a_home_that_is_only_shown_takes_no_wishes(world: Pages) -> None:
    shown = replace(world.services, is_shown_only=True, stopping=threading.Event())
    with serving(shown) as url, httpx2.Client(base_url=url, trust_env=False) as http:
        sign_in(http, world.token)
        page = http.get("/flows/shop").text
        assert "this home is only shown" in page.lower()
        assert 'type="submit" disabled' in page
        refused = http.post("/actions/pause", data=forms(http, "/flows/shop")["pause"], headers=OWN)
        assert refused.status_code == 403
    assert not audited(world)


def fields(page: httpx2.Response, action: str) -> dict[str, str]:
    """Hidden fields of the first form of a page that is sent there."""
    body = re.search(
        rf'<form[^>]* action="{action}(?:\?[^"]*)?" method="post">(.*?)</form>',
        page.text,
        re.DOTALL,
    )
    assert body is not None
    return {
        name: unescape(value)
        for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', body[1])
    }


def test_what_failed_of_one_partition_is_tried_again(world: Pages) -> None:
    for name in ("x", "y"):
        (world.world.home / "orders" / f"{name}.csv").write_text(f"k,v\n{name},1\n")
    world.world.settle()
    path = "/datasets/shop.orders/partition?key=x.csv"
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        assert f'href="{path}"' in http.get("/datasets/shop.orders").text
        page, twin = http.get(path), http.get(path.replace("?", ".json?")).json()
        assert (twin["tasks"], twin["rows"], twin["records"]) == ({"failed": 1}, None, None)
        assert "not there yet" in page.text
        form = forms(http, path)["retry-partition"]
        assert (form["target"], form["partition"]) == ("shop.orders", "x.csv")
        answer = http.post("/actions/retry-partition", data=form, headers=OWN)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        assert "What failed of this partition is tried again" in http.get(path).text
        assert (
            http.post(
                "/actions/retry-partition",
                data={**form, "once": "0" * 32, "target": "shop"},
                headers=OWN,
            ).status_code
            == 422
        )
        assert "retry-partition" not in forms(
            http, "/datasets/shop.orders/partition?key=2025-01-01.csv"
        )
        assert http.get("/datasets/shop.orders/partition?key=z.csv").status_code == 404
    assert states(world, "shop.orders") == {"x.csv": "queued", "y.csv": "failed"}
    assert audited(world) == [("ada", "retry", "shop.orders")]


def states(world: Pages, dataset: str) -> dict[str, str]:
    with world.services.store.read() as tx:
        return {
            task.partition: task.state
            for task in tx.queue.demands("main", dataset).values()
            if task.state != "done"
        }


def test_a_draft_is_planned_and_just_what_was_planned_is_applied(world: Pages) -> None:
    edit = ("v > 20", "v > 30")
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        page = http.get("/plan?flow=shop")
        text = http.get("/plan.json?flow=shop").json()["text"].replace(*edit)
        form = {**fields(page, "/plan"), "text": text.replace("\n", "\r\n")}
        early = http.post("/plan", data={**form, "do": "apply"}, headers=OWN)
        assert (early.status_code, "plan it first" in early.text.lower()) == (422, True)
        planned = http.post("/plan", data={**form, "do": "plan"}, headers=OWN)
        assert planned.status_code == 200
        assert "shop.dear" in planned.text
        assert http.get("/flows/shop.json").json()["summary"]["revision"] == 1, (
            "nothing is stored yet"
        )
        basis = {**form, **fields(planned, "/plan"), "text": text, "do": "apply"}
        other = http.post("/plan", data={**basis, "text": text + "# more\n"}, headers=OWN)
        assert other.status_code == 409, "another text than was planned"
        applied = http.post("/plan", data=basis, headers=OWN)
        assert (applied.status_code, applied.headers["location"]) == (303, "/flows/shop")
        assert http.get("/flows/shop.json").json()["summary"]["revision"] == 2
        again = {**basis, "once": fields(http.get("/plan?flow=shop"), "/plan")["once"]}
        moved = http.post("/plan", data=again, headers=OWN)
        assert moved.status_code == 409
        assert "plan again" in moved.text


def test_an_earlier_text_is_shown_with_its_changes_and_stored_again(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        blueprints.apply(
            world.world.ctx,
            "main",
            [blueprints.SentBlueprint("/other.yaml", OTHER.replace("sum", "max"), {})],
        )
        new = http.get("/flows/other/blueprint.json").json()
        assert [one["revision"] for one in new["revisions"]] == [2, 1]
        changed = [line for line in new["difference"] if line[:1] in "+-" and "sql" in line]
        assert ["max(t)" in line for line in changed] == [False, True]
        old = http.get("/flows/other/blueprint?rev=1")
        assert "sum(t)" in old.text
        assert http.get("/flows/other/blueprint?rev=9").status_code == 404
        assert (
            http.post(
                "/actions/revert", data=fields(old, "/actions/revert"), headers=OWN
            ).status_code
            == 303
        )
        page = http.get("/flows/other/blueprint.json").json()
        assert (page["newest"], page["dataflow"]["text"]) == (3, OTHER)


def test_what_is_wrong_with_a_draft_is_told_with_its_lines_and_the_text_stays(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        form = {
            **fields(http.get("/plan"), "/plan"),
            "text": "dataflow: new\ncomponents: {x: {reed: 1}}\n",
            "do": "plan",
        }
        page = http.post("/plan", data=form, headers=OWN)
    assert "2:18" in page.text
    assert "components: {x: {reed: 1}}" in page.text
    assert "Apply this plan" not in page.text


def test_a_token_is_shown_once_and_revoked(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        form = {
            **fields(http.get("/settings/tokens"), "/settings/tokens"),
            "name": "ci",
            "scope": "admin",
            "days": "3",
        }
        page = http.post("/settings/tokens", data=form, headers=OWN)
        text = re.search(r"hg_[\w-]{40,}", page.text)
        assert text is not None
        assert text[0] not in http.post("/settings/tokens", data=form, headers=OWN).text, (
            "once, by one form"
        )
        with httpx2.Client(base_url=world.url, trust_env=False) as other:
            assert other.get("/", headers={"Authorization": f"Bearer {text[0]}"}).status_code == 200
            sign_in(other, text[0])
            listed = http.get("/settings/tokens.json").json()["tokens"]
            made = next(one for one in listed if one["name"] == "ci")
            assert made["expires"] == pytest.approx(made["at"] + 3 * 86_400)
            revoke = {**forms(http, "/settings/tokens")["revoke-token"], "target": made["id"]}
            assert http.post("/actions/revoke-token", data=revoke, headers=OWN).status_code == 303
            assert other.get("/").status_code == 303, "its session is over"
        for wrong in ({"name": ""}, {"scope": "root"}, {"days": "-1"}):
            new = fields(http.get("/settings/tokens"), "/settings/tokens")
            bad = http.post(
                "/settings/tokens", data={**form, **new, "name": "x", **wrong}, headers=OWN
            )
            assert bad.status_code == 422, wrong


def test_a_check_finds_nothing_and_a_collection_is_in_the_audit(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        form = {**fields(http.get("/settings/care"), "/settings/care"), "files": "no"}
        assert "Nothing is wrong" in http.post("/settings/care", data=form, headers=OWN).text
        assert (
            "What went"
            in http.post("/settings/care", data={**form, "do": "collect"}, headers=OWN).text
        )
        assert [one["action"] for one in http.get("/settings/care.json").json()["audit"]] == ["gc"]


def test_a_branch_is_made_and_merged(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        form = {
            **fields(http.get("/branches"), "/actions/branch"),
            "name": "try-30",
            "source": "main",
        }
        assert http.post("/actions/branch", data=form, headers=OWN).status_code == 303
        assert "try-30" in http.get("/branches").text
        merge = fields(http.get("/branches/main...dev"), "/actions/merge")
        assert http.post("/actions/merge", data=merge, headers=OWN).status_code == 303
        assert "max(t)" in http.get("/flows/other/blueprint").text


def test_generations_are_compared_and_gone_back_to(world: Pages) -> None:
    world.late_file()
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        found = http.get("/datasets/shop.dear/compare.json").json()["difference"]
        assert http.get("/datasets/shop.dear.json?gen=2").json()["changed"] == {
            **found,
            "partitions": found["partitions"],
        }
        assert http.get("/datasets/shop.dear?gen=2").text.count('class="c1 new"') == 1
        assert http.get("/datasets/shop.dear.json?gen=99").json()["changed"] is None
        assert (found["one"]["generation"], found["other"]["generation"], found["added"]) == (
            1,
            2,
            1,
        )
        asked = http.get("/datasets/shop.dear/compare?a=1&b=2&rows=yes").text
        assert "this service does not compare rows" in asked.lower()
        page = http.get("/datasets/shop.dear/rollback?to=1")
        assert "shop.spent" in page.text
        back = {**fields(page, "/actions/roll-back"), "reason": "late file was wrong"}
        assert http.post("/actions/roll-back", data=back, headers=OWN).status_code == 303
        assert http.get("/datasets/shop.dear.json").json()["dataset"]["state"] == "held"
        assert http.get("/datasets/shop.dear/rollback?to=99").status_code == 404
        assert http.get("/datasets/shop.dear/partition?key=none").status_code == 404


def test_a_draft_is_one_value_as_a_page_and_as_json(world: Pages) -> None:
    """Its address by GET is about the stored text, so that the page leads to no such twin."""
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        text = http.get("/plan.json?flow=shop").json()["text"] + "# drafted\n"
        form = {**fields(http.get("/plan?flow=shop"), "/plan"), "text": text, "do": "plan"}
        page = http.post("/plan", data=form, headers=OWN)
        twin = http.post("/plan", data=form, headers={**OWN, "Accept": "application/json"}).json()
    assert (twin["text"], twin["is_draft"]) == (text, True)
    assert twin["plan"] is not None
    assert "This page as JSON" not in page.text
    assert "dry_run=true" in page.text
    assert "# drafted" in page.text


def test_a_dataset_is_used_by_what_its_reader_has(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        page = unescape(http.get("/datasets/shop.dear?branch=dev").text)
    assert 'headgate query "SELECT * FROM shop.dear" --branch dev' in page
    assert 'headgate.connect(branch="dev")["shop.dear"].to_pandas()' in page


def test_rules_of_trust_stand_beside_tokens(world: Pages) -> None:
    claims = {"repository": ["acme/<flows>"]}
    trust.create(
        world.world.ctx, "ci", "exchange", "https://issuer.test", claims, ("edit",), audience="us"
    )
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        page = http.get("/settings/tokens").text
        (rule,) = http.get("/settings/tokens.json").json()["trust"]
    assert (rule["name"], rule["claims"], rule["open"]) == ("ci", claims, 0)
    assert "repository: acme/&lt;flows&gt;" in page


def test_a_plan_shows_what_drivers_cost_without_work(world: Pages) -> None:
    with world.http(signed_in=False) as http:
        sign_in(http, world.token)
        page = http.get("/plan?flow=shop")
        text = "drivers: {keep: warm}\n" + http.get("/plan.json?flow=shop").json()["text"]
        form = {**fields(page, "/plan"), "text": text, "do": "plan"}
        planned = http.post("/plan", data=form, headers=OWN).text
    assert "Drivers of shop, warm: one driver of each pool (standard) stays without work" in planned
