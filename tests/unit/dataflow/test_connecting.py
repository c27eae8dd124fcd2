"""What identifies places that connectors read and write: the same place shares, another one does
not."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired, Sink, Source
from controlplane.core.model.revisions import Revision

READ = "{connector: jdbc, url: 'secret://a/url', table: t%s}"
NO_FILES: Mapping[str, str] = MappingProxyType({})
WRITE = "{connector: jdbc, from: x, url: 'secret://a/url', table: c%s}"


def compiled(read: str = "", write: str = "", *, uid: str = "u", by: str = "[k]") -> Desired:
    text = f"""
dataflow: f
components:
  t: {{read: {READ % read}}}
  x: {{transform: {{sql: "SELECT k, day, count(*) AS n FROM t GROUP BY k, day", partition_by: {by}}}}}
  c: {{write: {WRITE % write}}}
"""
    uids = {"t": "1", "x": "2", "c": uid}
    return compile_revisions(
        [Revision("main", "f", 1, text, {}, "f.yaml", uids, "", "", 0.0)]
    ).require()


def source(read: str = "") -> Source:
    node = compiled(read).nodes["f.t"]
    assert isinstance(node, Source)
    return node


def sink(write: str = "", **more: str) -> Sink:
    node = compiled(write=write, **more).nodes["f.c"]
    assert isinstance(node, Sink)
    return node


def test_secrets_are_no_part_of_logic() -> None:
    plain, other = (
        source(", options: {user: u}"),
        source(", options: {user: u, password: 'secret://a/b'}"),
    )
    assert (plain.logic, plain.location) == (other.logic, "secret://a/url t")


def test_slices_are_part_of_a_listing() -> None:
    ways = (
        "",
        ", full: true",
        ", partitioned: {column: k}",
        ", partitioned: {column: k, bounds: [1]}",
    )
    whole, same, values, ranges = (source(way).listing for way in ways)
    assert whole == same
    assert len({whole, values, ranges, source(", incremental: {column: k}").listing}) == 4
    assert source(", incremental: {column: k}").read.is_growing


def test_a_target_is_written_anew_where_rows_are_found_otherwise() -> None:
    before = sink()
    assert before.keyed == ("k",)
    assert sink(", schema_change: alter").identity == before.identity
    assert sink(", options: {password: 'secret://a/b'}").identity == before.identity
    others = [
        sink(by="[k, day]"),
        sink(", mode: upsert, key: [k]"),
        sink(uid="v"),
        sink(by="[{day: month}]"),
    ]
    assert len({before.identity, *(one.identity for one in others)}) == 5
    assert others[-1].keyed == ()


def read_of(keys: str, files: Mapping[str, str] = NO_FILES) -> Source:
    text = f"dataflow: f\ncomponents:\n  t:\n    read:\n{keys}\n"
    node = (
        compile_revisions(
            [Revision("main", "f", 1, text, files, "/b/f.yaml", {"t": "1"}, "", "", 0.0)]
        )
        .require()
        .nodes["f.t"]
    )
    assert isinstance(node, Source)
    return node


def test_credentials_regex_and_groups_are_part_of_a_listing_and_not_of_logic() -> None:
    plain = "      connector: files\n      path: s3://b/*.csv\n      format: csv"
    keys = "storage: {{access_key_id: 'secret://{0}/id', secret_access_key: 'secret://{0}/key'}}"
    more = (
        "",
        keys.format("a"),
        keys.format("b"),
        "regex: a",
        "group: {by: folder}",
        "group: {by: size}",
    )
    found = [read_of(f"{plain}\n      {one}") for one in more]
    assert len({one.logic for one in found}) == len({one.parse for one in found}) == 1
    assert len({one.listing for one in found}) == len(more)


def test_code_is_identified_whatever_its_layout() -> None:
    code = """\
      connector: python
      schema: a INT
      params: {{n: 1, t: 'secret://{0}/t'}}
      python: |
        def list(context):
            return []{1}
        def read(context, object):
            return [{2}]"""
    first, commented, renamed, edited = (
        read_of(code.format(*one))
        for one in (("s", "", ""), ("s", "  # none", ""), ("z", "", ""), ("s", "", "1"))
    )
    assert (first.logic, first.listing) == (commented.logic, commented.listing)
    assert first.logic == renamed.logic != edited.logic


# What these were when they came: they name what is stored.
JSON_LISTING = "c58422d0acc34d96d99e2f1c648f37ae5cc2d64c102a0f434d4bfb388fb87185"
JSON_PARSE = "e889967a95a0f632bb3610272212fa31b2fbb58b757b0c8bd04aefa297ee8a4a"
TOPIC = "connector: kafka, servers: 'a:1', topic: o"
AVRO = f"{TOPIC}, format: avro, registry: 'http://r:1'"


def topic(keys: str) -> Source:
    return read_of(f"      {{{keys}}}")


def test_what_a_topic_of_json_is_stays_the_same() -> None:
    found = topic(f"{TOPIC}, schema: 'id INT, item STRING'")
    assert (found.listing.hex(), found.parse.hex()) == (JSON_LISTING, JSON_PARSE)


def test_the_registry_is_part_of_what_values_mean_and_its_users_are_not() -> None:
    plain, named = topic(AVRO), topic(f"{AVRO}, subject: o-value")
    assert (plain.listing, plain.logic) == (named.listing, named.logic)
    user = topic(f"{AVRO}, options: {{registry.username: u, registry.password: 'secret://r/p'}}")
    assert (plain.listing, plain.logic) == (user.listing, user.logic)
    others = [
        topic(f"{TOPIC}, format: avro, registry: 'http://r:2'"),
        topic(f"{AVRO}, subject: other"),
    ]
    assert (
        len({one.listing for one in (plain, *others)})
        == len({one.parse for one in (plain, *others)})
        == 3
    )
    assert plain.declared is None
    assert plain.read.schema_change == "append"


DLT = """\
      connector: dlt
      file: sources/shop.py
      source: shop
      resource: {0}
      write_disposition: {1}
      arguments: {{since: {2}, auth: {{token: 'secret://shop/token'}}}}
      schema: {3}"""


def test_columns_of_a_resource_are_no_part_of_what_is_fetched() -> None:
    files = {"sources/shop.py": "def shop(since, auth): ..."}
    first, columns, *others = (
        read_of(DLT.format(*values), files)
        for values in (
            ("orders", "append", 1, "id INT"),
            ("orders", "append", 1, "id BIGINT"),
            ("orders", "append", 2, "id INT"),
            ("orders", "replace", 1, "id INT"),
            ("customers", "append", 1, "id INT"),
        )
    )
    assert first.listing == columns.listing
    assert first.logic != columns.logic
    assert len({first.listing, *(other.listing for other in others)}) == 4
    assert (first.read.is_growing, others[1].read.is_growing) == (True, False)


def test_secrets_that_options_of_spark_name_are_part_of_what_is_read() -> None:
    keys = """\
      connector: spark
      format: mongodb
      version: options
      options: {{uri: 'secret://{0}/uri'}}
      schema: id INT"""
    own, others = read_of(keys.format("own")), read_of(keys.format("others"))
    assert own.logic != others.logic
    assert own.listing != others.listing


def test_packages_of_a_source_of_spark_are_part_of_what_is_read() -> None:
    keys = "      connector: spark\n      format: x\n      schema: id INT"
    packages = ("", "[g:a:1, g:b:1]", "[g:b:1, g:a:1]", "[g:a:2, g:b:1]")
    none, listed, reordered, newer = (
        read_of(f"{keys}\n      packages: {names}" if names else keys) for names in packages
    )
    assert (listed.logic, listed.listing) == (reordered.logic, reordered.listing)
    assert len({none.logic, listed.logic, newer.logic}) == 3
    assert len({none.listing, listed.listing, newer.listing}) == 3
