"""Debian's Chromium: that on PATH, else the packages of this release, unpacked into the user's
cache. No root needed.

Does not belong here: what is looked at with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import debian

PACKAGES = ("chromium", "fonts-dejavu-core")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
)
LIBRARIES = (
    "usr/lib/{triple}",
    "lib/{triple}",
    "usr/lib",
    "usr/lib/{triple}/pulseaudio",
    "usr/lib/chromium",
)
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""
TRIPLES = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}


@dataclass(frozen=True, slots=True)
class Chromium:
    """A program, and the environment that it finds its libraries and fonts by."""

    program: str
    environment: Mapping[str, str]


def chromium(scratch: Path) -> Chromium:
    """MissingTool where this is no Debian, or packages cannot be had. `scratch`: for files that it
    is told to read."""
    if (own := shutil.which("chromium")) is not None:
        return Chromium(own, dict(os.environ))
    root = debian.unpacked(PACKAGES)
    triple = TRIPLES[debian.architecture()]
    libraries = [str(root / folder.format(triple=triple)) for folder in LIBRARIES]
    fonts = scratch / "fonts.conf"
    fonts.write_text(FONTS.format(fonts=root / "usr/share/fonts", cache=scratch / "fontcache"))
    found = {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(
            [*libraries, os.environ.get("LD_LIBRARY_PATH", "")]
        ).rstrip(os.pathsep),
        "FONTCONFIG_FILE": str(fonts),
        "HOME": str(scratch),
    }
    return Chromium(str(root / "usr/lib/chromium/chromium"), found)
