"""Defaults, templates, connections and schemas: a blueprint with them is the blueprint that is
written out."""

from __future__ import annotations

import jsonschema_rs
import pytest
import yaml

from controlplane.core.blueprint import file_references, json_schema, parse, written_out
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired, Sink
from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.revisions import Revision
from tests.unit.blueprint.texts import component, marked, problems_of

FILE = "/work/shop.yaml"
SHORT = """\
dataflow: shop
defaults:
  owner: team-revenue
  retention: {generations: 10}
  read: {connector: files, format: csv, options: {header: true}, refresh: 5m}
schemas:
  orders: "id BIGINT, amount DECIMAL(10, 2), day DATE"
connections:
  warehouse:
    connector: jdbc
    url: jdbc:postgresql://db/shop
    options: {user: app, password: secret://warehouse/password}
templates:
  csv_folder:
    params: {folder: , refresh: 1m, least: 1}
    description: Files of ${folder}, $${folder}
    read:
      path: "data/${folder}/*.csv"
      refresh: ${refresh}
    expect:
      - rows: {min: "${least}"}
  daily:
    params: {source: , share: 0.5}
    transform:
      sql: |
        SELECT day, sum(amount) AS amount
        FROM ${source} WHERE amount > :share GROUP BY day
      params: {share: "${share}"}
      inputs: {"${source}": all}
components:
  orders:
    template: csv_folder
    params: {folder: orders, least: 3}
    read: {schema: orders}
  people: {template: csv_folder, params: {folder: people}, owner: me, read: {options: {sep: ;}}}
  per_day: {template: daily, params: {source: orders}}
  per_day_of_old: {template: daily, params: {source: old}, retention: {days: 1}}
  old: {read: {connection: warehouse, table: public.old, schema: orders, options: {user: reader}}}
  to_warehouse: {write: {connection: warehouse, from: per_day, table: public.per_day}}
"""
LONG = """\
dataflow: shop
components:
  orders:
    owner: team-revenue
    retention: {generations: 10}
    description: Files of orders, ${folder}
    read:
      connector: files
      path: data/orders/*.csv
      format: csv
      options: {header: true}
      refresh: 1m
      schema: "id BIGINT, amount DECIMAL(10, 2), day DATE"
    expect: [{rows: {min: 3}}]
  people:
    owner: me
    retention: {generations: 10}
    description: Files of people, ${folder}
    read: {connector: files, path: data/people/*.csv, format: csv, options: {header: true, sep: ;}, refresh: 1m}
    expect: [{rows: {min: 1}}]
  per_day:
    owner: team-revenue
    retention: {generations: 10}
    transform:
      sql: |
        SELECT day, sum(amount) AS amount
        FROM orders WHERE amount > :share GROUP BY day
      params: {share: 0.5}
      inputs: {orders: all}
  per_day_of_old:
    owner: team-revenue
    retention: {generations: 10, days: 1}
    transform:
      sql: |
        SELECT day, sum(amount) AS amount
        FROM old WHERE amount > :share GROUP BY day
      params: {share: 0.5}
      inputs: {old: all}
  old:
    owner: team-revenue
    retention: {generations: 10}
    read:
      connector: jdbc
      url: jdbc:postgresql://db/shop
      table: public.old
      schema: "id BIGINT, amount DECIMAL(10, 2), day DATE"
      options: {user: reader, password: secret://warehouse/password}
      refresh: 5m
  to_warehouse:
    owner: team-revenue
    retention: {generations: 10}
    write:
      connector: jdbc
      url: jdbc:postgresql://db/shop
      options: {user: app, password: secret://warehouse/password}
      from: per_day
      table: public.per_day
"""


def desired(text: str) -> Desired:
    return compile_revisions(
        [
            Revision(
                "main",
                "shop",
                number=1,
                text=text,
                files={},
                file=FILE,
                uids={},
                actor="",
                request_id="",
                at=0.0,
            )
        ]
    ).require()


def identities(text: str) -> dict[str, tuple[bytes, ...]]:
    found: dict[str, tuple[bytes, ...]] = {}
    for name, node in desired(text).nodes.items():
        found[name] = (node.identity,) if isinstance(node, Sink) else (node.logic, node.lineage)
    return found


def about(text: str) -> dict[str, tuple[object, ...]]:
    """All of each component but its places."""
    components = parse(text, file=FILE).components
    return {
        c.name: (c.description, c.owner, c.retention, [e.rows for e in c.expect])
        for c in components
    }


@pytest.mark.parametrize(
    "other", [LONG, written_out(SHORT, file=FILE)], ids=["by hand", "by validate --expand"]
)
def test_identities_and_fields_are_those_of_the_blueprint_written_out(other: str) -> None:
    assert identities(SHORT) == identities(other)
    assert about(SHORT) == about(other)


def test_what_is_written_out_uses_nothing_shared_and_keeps_its_texts() -> None:
    long = written_out(SHORT, file=FILE)
    assert written_out(long, file=FILE) == long
    text = component(
        'transform: {sql: SELECT 1, params: {a: "0o17", b: 0o17, c: "no", d: "1e3", e: ~, f: "a\\nb"}}'
    )
    params = parse(written_out(text, file="f"), file="f").components[0].body.params  # type: ignore[union-attr]
    assert params == (
        ("a", "0o17"),
        ("b", 15),
        ("c", "no"),
        ("d", "1e3"),
        ("e", None),
        ("f", "a\nb"),
    )


def test_editors_take_it_and_find_a_misspelt_key() -> None:
    validator = jsonschema_rs.validator_for(json_schema())
    short, long = yaml.safe_load(SHORT), yaml.safe_load(LONG)
    assert [*validator.iter_errors(short), *validator.iter_errors(long)] == []
    short["components"]["old"]["read"]["tabel"] = "x"
    long["components"]["old"]["read"].pop("url")
    assert not validator.is_valid(short)
    assert not validator.is_valid(long)


def test_files_that_templates_name_are_sent_along() -> None:
    template = "{params: {a: }, transform: {file: 'lib/${a}.py', inputs: {}}}"
    use = "{template: t, params: {a: x}}"
    text = f"dataflow: d\ntemplates:\n  t: {template}\ncomponents:\n  c: {use}\n"
    assert file_references(text) == ("lib/x.py",)


TEMPLATE = """\
dataflow: d
templates:
  t:
    params: {a: , b: 1m}
    read: {connector: files, format: csv, path: "${a}/*.csv", refresh: "${b}"}
components:
"""


@pytest.mark.parametrize(
    ("use", "code", "message"),
    [
        ("  c: {template: ^s, params: {a: x}}", "unknown-reference", "there is no template 's'"),
        ("  c: {template: ^[t], params: {a: x}}", "wrong-type", "expected the name of a template, found a list"),
        ("  c: ^{template: t}", "missing-key", "c gives no value to 'a', a parameter of the template t"),
        ("  c: {template: t, params: {a: x, ^q: 1}}", "unknown-key", "the template t has no parameter 'q'"),
        ("  c: {template: t, params: {a: x, b: ^[1]}}", "wrong-type", "expected a text, a number, true or false"),
        ("  c: {^params: {a: x}, transform: {sql: SELECT 1}}", "unknown-key", "'params' belongs to a component"),
        ("  c: {template: t, params: {a: x}, ^ownr: me}", "unknown-key", "there is no key 'ownr' here"),
        ("  c: {read: {connection: ^w, table: t}}", "unknown-reference", "there is no connection 'w'"),
    ],
)  # fmt: skip
def test_problems_of_a_use_stand_at_the_use(use: str, code: str, message: str) -> None:
    text, places = marked(TEMPLATE + use + "\n")
    (problem,) = problems_of(text)
    assert (problem.code, [(problem.line, problem.column)]) == (code, places)
    assert problem.message.startswith(message)


@pytest.mark.parametrize(
    ("section", "code", "message"),
    [
        ("templates: {t: {params: {a: }, owner: ^'${b}'}}", "unknown-reference", "the template t has no parameter 'b'"),
        ("templates: {t: {^template: s}}", "not-supported", "a template cannot be made from a template"),
        ("templates: {^T: {owner: me}}", "invalid-name", "'T' is no name"),
        ("templates: ^[t]", "wrong-type", "expected a mapping of names to templates, found a list"),
        ("defaults: {^sql: x}", "unknown-key", "there is no default of 'sql'"),
        ("defaults: {read: {^tabel: x}}", "unknown-key", "there is no default of 'tabel'"),
        ("connections: {w: ^{url: 'jdbc:x'}}", "missing-key", "the key 'connector' is missing"),
        ("connections: {w: {connector: jdbc, ^table: t}}", "unknown-key", "a connection has no key 'table'"),
        ("connections: {w: {connector: jdbc, options: {password: ^abc}}}", "literal-secret", "'password' holds"),
        ("schemas: {s: '^id'}", "invalid-schema", "'id' has no type"),
    ],
)  # fmt: skip
def test_problems_of_what_is_declared_are_told_though_nothing_uses_it(
    section: str, code: str, message: str
) -> None:
    use = "components:\n  c: {read: {connector: files, path: a, format: csv}}\n"
    text, places = marked(f"dataflow: d\n{section}\n{use}")
    (problem,) = problems_of(text)
    assert (problem.code, [(problem.line, problem.column)]) == (code, places)
    assert problem.message.startswith(message)


def test_a_problem_in_a_template_is_told_once_at_its_line_with_the_first_use() -> None:
    text = (
        TEMPLATE.replace("refresh:", "refersh:")
        + "  x: {template: t, params: {a: x}}\n  y: {template: t, params: {a: x}}\n"
    )
    (problem,) = problems_of(text)
    assert (problem.line, problem.code) == (5, "unknown-key")
    assert problem.message == "there is no key 'refersh' here; component x on line 7 uses it"
    assert "did you mean 'refresh'?" in problem.hint


def test_a_problem_of_sql_in_a_template_has_its_line_and_the_use() -> None:
    with pytest.raises(InvalidBlueprint) as refused:
        desired(SHORT.replace("FROM ${source} WHERE", "FROM ${source} WHERE WHERE"))
    lines = {(p.line, p.message.rpartition("; ")[2]) for p in refused.value.problems}
    assert lines == {
        (27, "component per_day on line 36 uses it"),
        (27, "component per_day_of_old on line 37 uses it"),
    }


def test_a_schema_that_is_not_declared_is_told_with_those_that_are() -> None:
    (problem,) = problems_of(SHORT.replace("read: {schema: orders}", "read: {schema: order}"))
    assert (problem.code, problem.line, problem.hint) == (
        "unknown-reference",
        34,
        "did you mean 'orders'?",
    )


def test_defaults_of_a_connector_do_not_reach_another() -> None:
    defaults = "{read: {connector: files, format: csv, metadata: [name]}}"
    other = "{read: {connector: kafka, servers: 'h:1', topic: t, schema: a INT}}"
    text = f"dataflow: d\ndefaults: {defaults}\ncomponents:\n  a: {{read: {{path: x}}}}\n  b: {other}\n"
    a, b = parse(text, file="f").components
    assert (a.body.metadata, b.body.metadata, b.body.format) == (("name",), (), "kafka")  # type: ignore[union-attr]


def test_what_templates_are_written_out_to_is_bounded() -> None:
    body = ", ".join(f"k{n}: x" for n in range(2000))
    uses = "".join(f"  c{n}: {{template: t}}\n" for n in range(150))
    template = f"{{params: {{}}, transform: {{sql: SELECT 1, params: {{{body}}}}}}}"
    text = f"dataflow: d\ntemplates:\n  t: {template}\ncomponents:\n{uses}"
    assert [p.code for p in problems_of(text)] == ["too-many-nodes"]
