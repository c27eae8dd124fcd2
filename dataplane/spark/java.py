"""Is there a Java that Spark can run on? Asked before Spark is started, so that the answer is one line, not a trace."""

from __future__ import annotations

import os
import re
import subprocess

OLDEST = 17


class NoSpark(RuntimeError):
    """Spark cannot start here, however often it is tried; the text says what to do."""

    condition: str


class NoJava(NoSpark):
    """None is found, or one that is too old; the text says what to install."""

    condition = "java-missing"


def require_java() -> None:
    """Raise NoJava unless the Java that Spark will take ($JAVA_HOME, else PATH) is new enough."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else "java"
    found = _major(program)
    if found is None or found < OLDEST:
        where = f"in JAVA_HOME={home}" if home else "on PATH"
        what = "none" if found is None else f"Java {found}"
        raise NoJava(
            f"Spark needs Java {OLDEST} or newer; found {what} {where}: "
            "install one (apt install openjdk-17-jre-headless, brew install openjdk@17) or set JAVA_HOME"
        )


def _major(program: str) -> int | None:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(version[1]) if version else None
