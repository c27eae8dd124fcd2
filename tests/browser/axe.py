"""axe-core, which looks for what keeps people from using a page: fetched once from npm, of one
version, by its hash.

Does not belong here: which pages it looks at.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.servers.programs import kept
from tests.tools import on_path

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
# The rules whose answers another theme may change
OF_COLOURS = ("color-contrast", "link-in-text-block")
LOOK = """async (rules) => {
  const found = await axe.run(document, {resultTypes: ["violations"], ...(rules && {runOnly: rules})});
  return found.violations.map((v) => ({
    rule: v.id, help: v.help, where: v.nodes.slice(0, 5).map((n) => `${n.target} ${n.failureSummary}`),
  }));
}"""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a page breaks, and where."""

    rule: str
    help: str
    where: tuple[str, ...]


def violations(page: Page, rules: Sequence[str] | None = None) -> list[Violation]:
    """By these rules, or all of axe, those of best practice among them."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(_script())  # by the debugger's way, which a page's policy does not stop
    found: list[dict[str, Any]] = page.evaluate(LOOK, None if rules is None else list(rules))
    return [Violation(one["rule"], one["help"], tuple(one["where"])) for one in found]


@cache
def _script() -> str:
    path = kept(f"axe-core-{VERSION}", _install) / "node_modules" / "axe-core" / "axe.min.js"
    content = path.read_bytes()
    assert sha256(content).hexdigest() == SHA256, f"{path} is not what was pinned"
    return content.decode()


def _install(folder: Path) -> None:
    on_path("npm", "node")
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        f"axe-core@{VERSION}",
    ]
    subprocess.run([*command, "--prefix", str(folder)], check=True, stdout=subprocess.DEVNULL)
