"""What a schema registry answers, and why it does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dataplane.connectors.kafka.schema_registry import Registry
from dataplane.task_failures import TaskFailure
from tests.servers.registry import PASSWORD, USER, SchemaRegistry


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry().start()
    yield server
    server.remove()


def record(name: str, kind: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": "x", "type": kind}]})


def test_the_newest_schema_of_a_subject(registry: SchemaRegistry) -> None:
    older = registry.register("orders-value", record("Order", "int"))
    newer = registry.register("orders-value", record("Order", "long"))
    asked = Registry(registry.url)
    assert older != newer == asked.newest("orders-value")
    assert [json.loads(*asked.texts(id))["fields"][0]["type"] for id in (older, newer)] == [
        "int",
        "long",
    ]


def test_a_schema_comes_behind_those_that_it_names(registry: SchemaRegistry) -> None:
    registry.register("inner", record("Inner", "int"))
    told = [{"name": "Inner", "subject": "inner", "version": 1}]
    outer = registry.register("a/outer", record("Outer", "Inner"), references=told)
    asked = Registry(registry.url)
    assert asked.newest("a/outer") == outer
    assert [json.loads(text)["name"] for text in asked.texts(outer)] == ["Inner", "Outer"]


def test_who_has_to_log_in(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"registry": registry.url_with_login + "/", "client.registry.username": USER}
    settings = own | {"client.registry.password": "secret://registry/password"}
    assert condition(lambda: Registry.of(settings)) == "secret-missing"
    monkeypatch.setenv("HEADGATE_SECRET_REGISTRY_PASSWORD", PASSWORD)
    id = registry.register("locked", record("Locked", "int"))
    assert Registry.of(settings).newest("locked") == id
    monkeypatch.setenv("HEADGATE_SECRET_REGISTRY_PASSWORD", "wrong")
    assert condition(lambda: Registry.of(settings).newest("locked")) == "credentials-refused"


def test_what_is_in_the_way(registry: SchemaRegistry) -> None:
    asked = Registry(registry.url)
    assert condition(lambda: asked.newest("nothing")) == "schema-not-found"
    assert condition(lambda: asked.texts(999_999)) == "schema-not-found"
    assert (
        condition(lambda: Registry(registry.url.replace("http:", "https:")).newest("inner"))
        == "tls-failed"
    )
    with registry.away():
        away = Registry(registry.url_with_login, USER, PASSWORD)
        assert condition(lambda: away.newest("inner")) == "unreachable"


def condition(ask: Callable[[], object]) -> str:
    with pytest.raises(TaskFailure) as caught:
        ask()
    return caught.value.condition
