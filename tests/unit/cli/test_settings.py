"""Settings from the environment and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane import settings
from controlplane.settings import BadSetting
from controlplane.store import upgrade


def test_everything_lies_in_the_home_unless_told_otherwise(tmp_path: Path) -> None:
    chosen = settings.read(environ={"HEADGATE_HOME": str(tmp_path), "HEADGATE_URL": ""})
    assert (chosen.home, chosen.lake, chosen.url, chosen.pool) == (
        tmp_path,
        (tmp_path / "lake").as_uri(),
        None,
        "local",
    )
    assert chosen.database_url == f"sqlite:///{tmp_path}/metadata.db"


@pytest.mark.parametrize("name", ["a?b=c", "a%20b", "a b#c", "\N{SNOWMAN}", "100%"])
def test_the_database_lies_in_the_home_whatever_that_is_called(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    home.mkdir()
    upgrade(settings.read(home, {}).database_url)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (home / "metadata.db").is_file()


def test_the_command_line_wins(tmp_path: Path) -> None:
    environ = {
        "HEADGATE_HOME": "/elsewhere",
        "HEADGATE_DATABASE_URL": "sqlite:///elsewhere.db",
        "HEADGATE_LAKE": "s3://b/p",
    }
    chosen = settings.read(tmp_path, environ)
    assert (chosen.home, chosen.database_url, chosen.lake) == (
        tmp_path,
        "sqlite:///elsewhere.db",
        "s3://b/p",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POOL", "x"),
        ("SEMANTICS", "-1"),
        ("SEMANTICS", "x"),
        ("LEASE_S", "1"),
        ("LEASE_S", "x"),
        ("DRIVER_IDLE", "0"),
        ("DRIVER_IDLE", "5 minutes"),
        ("DRIVER_IDLE", "-1s"),
        ("URL", "127.0.0.1:8420"),
        ("URL", "http://[::1"),
        ("URL", "ftp://a"),
        ("OPENLINEAGE", "events.ndjson"),
        ("OPENLINEAGE", "localhost:5000/api/v1/lineage"),
        ("OPENLINEAGE", "ftp://a"),
        ("OPENLINEAGE", "file:///events/lineage.ndjson"),
        ("OPENLINEAGE", "http://[::1"),
        ("OPENLINEAGE_TOKEN_FILE", "/nowhere"),
        ("TOKEN", "hg_é"),
        ("TOKEN", "hg_a b"),
        ("TOKEN", "hg_a\nb"),
    ],
)
def test_what_cannot_be_meant_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"HEADGATE_{name}"):
        settings.read(environ={f"HEADGATE_{name}": value})


def test_lineage_goes_to_a_service() -> None:
    url = "https://host/api/v1/lineage"
    assert settings.read(environ={"HEADGATE_OPENLINEAGE": url}).openlineage == url


@pytest.mark.parametrize(
    "url", ["https://ann:geheim@host/", "https://host/?key=geheim", "http://[::1@geheim"]
)
def test_a_secret_in_the_address_of_lineage_is_refused_and_not_told(url: str) -> None:
    with pytest.raises(BadSetting, match="HEADGATE_OPENLINEAGE_TOKEN_FILE") as refused:
        settings.read(environ={"HEADGATE_OPENLINEAGE": url})
    assert "geheim" not in str(refused.value)


def test_the_token_of_lineage_is_read_from_its_file_and_never_told(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("geheim-1\n")
    environ = {"HEADGATE_OPENLINEAGE_TOKEN_FILE": str(file)}
    chosen = settings.read(environ=environ)
    assert chosen.openlineage_token == "geheim-1"
    assert "geheim-1" in settings.secrets_in(environ, chosen)
    file.write_text("geheim 1")
    with pytest.raises(BadSetting) as refused:
        settings.read(environ=environ)
    assert "geheim" not in str(refused.value)


def test_an_issuer_of_people_is_read_with_its_client(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("geheim-2\n")
    issuer = {"HEADGATE_OIDC_ISSUER": "https://id.example.com/", "HEADGATE_OIDC_CLIENT_ID": "us"}
    public = settings.read(environ=issuer).sign_on
    assert public is not None
    assert (public.issuer, public.client, public.secret) == ("https://id.example.com/", "us", None)
    assert public.scopes == ("openid", "email", "profile")
    options = {
        "HEADGATE_OIDC_CLIENT_SECRET_FILE": str(file),
        "HEADGATE_OIDC_SCOPES": "groups openid",
    }
    chosen = settings.read(environ={**issuer, **options})
    assert chosen.sign_on is not None
    assert (chosen.sign_on.secret, chosen.sign_on.scopes) == ("geheim-2", ("openid", "groups"))
    assert "geheim-2" in settings.secrets_in({}, chosen)
    file.write_text("geheim 2")
    with pytest.raises(BadSetting, match="HEADGATE_OIDC_CLIENT_SECRET_FILE") as refused:
        settings.read(environ={**issuer, **options})
    assert "geheim" not in str(refused.value)
    with pytest.raises(BadSetting, match="HEADGATE_OIDC_CLIENT_ID"):
        settings.read(environ={"HEADGATE_OIDC_ISSUER": "https://id.example.com"})
    with pytest.raises(BadSetting, match="HEADGATE_OIDC_ISSUER"):
        settings.read(environ={**issuer, "HEADGATE_OIDC_ISSUER": "http://id.example.com"})
    assert settings.read(environ={}).sign_on is None


def test_a_job_has_an_identity_where_it_has_asked_for_one() -> None:
    github = {
        "ACTIONS_ID_TOKEN_REQUEST_URL": "https://runner/",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "geheim-3",
    }
    chosen = settings.read(environ={**github, "HEADGATE_URL": "https://headgate.example.com"})
    assert chosen.job is not None
    assert (chosen.job.address, chosen.job.audience) == ("https://runner/", "")
    assert "geheim-3" in settings.secrets_in({}, chosen)
    assert (
        settings.read(environ={"ACTIONS_ID_TOKEN_REQUEST_URL": "https://runner/", "X": "1"}).job
        is None
    )
    gitlab = settings.read(environ={"HEADGATE_ID_TOKEN": "a.b.c", "HEADGATE_ID_AUDIENCE": "us"}).job
    assert gitlab is not None
    assert (gitlab.text, gitlab.audience) == ("a.b.c", "us")


def test_a_token_is_never_told_and_may_end_with_its_line() -> None:
    with pytest.raises(BadSetting) as refused:
        settings.read(environ={"HEADGATE_TOKEN": "hg_secret\nsecret"})
    assert "secret" not in str(refused.value)
    assert (
        settings.read(environ={"HEADGATE_TOKEN": "hg_x\n", "HEADGATE_URL": "http://h:1\n"}).token
        == "hg_x"
    )


def test_how_long_a_leader_may_be_silent() -> None:
    assert settings.read(environ={"HEADGATE_LEASE_S": "60"}).lease_s == 60.0


REFUSED = [
    "s3://",
    "s3://bucket/a b",
    "s3://bucket/../x%20",
    "s3://bucket//x",
    "S3://bucket",
    "s3://bucket:1/x",
]
REFUSED += [
    "hdfs://namenode:8020",
    "hdfs:///lake",
    "hdfs://namenode:/lake",
    "hdfs://namenode:8020//lake",
    "hdfs://a@b/lake",
]


@pytest.mark.parametrize("lake", REFUSED)
def test_a_lake_in_an_object_store_has_a_plain_name(tmp_path: Path, lake: str) -> None:
    with pytest.raises(BadSetting, match="HEADGATE_LAKE"):
        settings.read(tmp_path, {"HEADGATE_LAKE": lake})


def test_a_lake_elsewhere(tmp_path: Path) -> None:
    chosen = settings.read(tmp_path, {"HEADGATE_LAKE": "s3://bucket/some/prefix=1/"})
    assert chosen.lake == "s3://bucket/some/prefix=1"
    assert settings.read(tmp_path, {"HEADGATE_LAKE": "file:///a%20b"}).lake == "file:///a%20b"
    for lake in ("hdfs://namenode:8020/lake", "hdfs://nameservice1/lakes/one"):
        assert settings.read(tmp_path, {"HEADGATE_LAKE": f"{lake}/"}).lake == lake


def test_credentials_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text("secret\n")
    (tmp_path / "LD_PRELOAD").write_text("evil.so")  # of a secret, only what is about stores
    (tmp_path / "..data").mkdir()
    assert settings.mounted({"HEADGATE_LAKE_CREDENTIALS": str(tmp_path)}) == {
        "AWS_SECRET_ACCESS_KEY": "secret"
    }
    assert settings.mounted({}) == {}
    with pytest.raises(BadSetting, match="cannot be read: No such file"):
        settings.mounted({"HEADGATE_LAKE_CREDENTIALS": str(tmp_path / "none")})


def test_a_token_that_an_operator_chose_is_read_from_its_file(tmp_path: Path) -> None:
    chosen = tmp_path / "token"
    chosen.write_text("hg_" + "x" * 32 + "\n")
    in_force = settings.read(environ={"HEADGATE_ADMIN_TOKEN_FILE": str(chosen)})
    assert in_force.admin_token == "hg_" + "x" * 32


@pytest.mark.parametrize("text", [None, "", "hg_short", "x" * 40, "hg_" + "ö" * 40])
def test_a_token_that_could_be_guessed_or_read_otherwise_is_refused(
    tmp_path: Path, text: str | None
) -> None:
    chosen = tmp_path / "token"
    if text is not None:
        chosen.write_text(text)
    with pytest.raises(BadSetting, match="HEADGATE_ADMIN_TOKEN_FILE"):
        settings.read(environ={"HEADGATE_ADMIN_TOKEN_FILE": str(chosen)})


@pytest.mark.parametrize("text", ["data", "/data,s3//bucket", "ftp://x/y", " , ", "s3:///prefix"])
def test_sources_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="HEADGATE_SOURCES"):
        settings.read(environ={"HEADGATE_SOURCES": text})


def test_sources_are_folders_and_prefixes() -> None:
    assert settings.read(environ={"HEADGATE_SOURCES": "/data, s3://b/in"}).sources == (
        "/data",
        "s3://b/in",
    )
    assert settings.read(environ={}).sources is None


def test_how_long_a_driver_is_kept_without_work() -> None:
    idle_s = {
        text: settings.read(environ={"HEADGATE_DRIVER_IDLE": text}).driver_idle_s
        for text in ("90", "20s", "5m", "2h")
    }
    assert idle_s == {"90": 90.0, "20s": 20.0, "5m": 300.0, "2h": 7200.0}
    assert settings.read(environ={}).driver_idle_s == 300.0


def test_queries_of_one_user_are_one_or_more(tmp_path: Path) -> None:
    def per_user(text: str) -> int:
        return settings.read(tmp_path, {"HEADGATE_QUERIES_PER_USER": text}).queries_per_user

    assert (per_user(""), per_user("2")) == (1, 2)
    for wrong in ("0", "-1", "many"):
        with pytest.raises(BadSetting, match="HEADGATE_QUERIES_PER_USER"):
            per_user(wrong)
