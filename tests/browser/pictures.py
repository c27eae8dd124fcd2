"""`make pictures`: photographs of the pages and a short recording, of the home that `headgate demo`
makes.

They are for README and docs, and are compared with nothing. Does not belong here: what must be true
of pages (tests).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import ARGUMENTS, chromium

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
HEADGATE = (sys.executable, "-m", "controlplane")
WIDE, HIGH = 1280, 800
SMALLER = (960, 600)  # the recording
COLOURS = 120  # twice
QUERY = """SELECT carrier, count(*) AS late, round(avg(arr_delay)) AS minutes
FROM flights.delays
WHERE late
GROUP BY ALL
ORDER BY late DESC"""
EDIT = ("late_minutes: 15", "late_minutes: 45")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument(
        "--home",
        type=Path,
        help="a .headgate of a demo; one is made by default, which takes minutes",
    )
    home: Path | None = asked.parse_args().home
    with tempfile.TemporaryDirectory(prefix="headgate-pictures-") as scratch:
        if home is None:
            subprocess.run(
                [*HEADGATE, "demo", "--by", "day", "--folder", scratch], check=True, cwd=ROOT
            )
            home = Path(scratch) / ".headgate"
        PICTURES.mkdir(exist_ok=True)
        with service(home), browser(Path(scratch)) as found:
            for theme in ("light", "dark"):
                photograph(signed_in(found, home, theme), theme)
            record(signed_in(found, home, "light"))
    for path in sorted(PICTURES.iterdir()):
        sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB\n")


@contextmanager
def service(home: Path) -> Iterator[None]:
    """A service of the home, until all is photographed."""
    command = [*HEADGATE, "serve", "--home", str(home), "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            process.stderr.readline()  # its address: it answers
            # So that it never waits for a reader
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield
        finally:
            process.terminate()


@contextmanager
def browser(scratch: Path) -> Iterator[Browser]:
    found = chromium(scratch)
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(
            executable_path=found.program, env=dict(found.environment), args=list(ARGUMENTS)
        )


def signed_in(browser: Browser, home: Path, theme: str) -> Page:
    command = [*HEADGATE, "open", "--print", "--home", str(home)]
    link = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    context = browser.new_context(
        viewport={"width": WIDE, "height": HIGH},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    page.goto(link)
    page.get_by_role("button", name="Go on").click()
    page.wait_for_url(lambda url: "/open" not in url)
    return page


def go(page: Page, path: str) -> None:
    page.goto(
        path
        if path.startswith("http")
        else page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path
    )
    page.wait_for_function(
        "() => document.querySelector('[data-live-sign]').textContent.trim() === 'live'"
    )
    page.wait_for_timeout(300)  # colours and pictures settle


def write(page: Page, text: str) -> None:
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    page.keyboard.press("Escape")


def photograph(page: Page, theme: str) -> None:
    def keep(name: str) -> None:
        picture = (
            Image.open(BytesIO(page.screenshot()))
            .convert("RGB")
            .quantize(256, dither=Image.Dither.NONE)
        )
        picture.save(PICTURES / f"{name}-{theme}.png", optimize=True)

    go(page, "/flows/flights?on=flights.delays")
    keep("dataflow")
    go(page, "/datasets/flights.delays")
    # Its addresses are this machine's
    page.evaluate("() => document.querySelector('#use').remove()")
    keep("dataset")
    ask(page)
    keep("query")
    plan(page)
    keep("plan")


def ask(page: Page) -> None:
    go(page, "/query")
    write(page, QUERY)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#rowsh")
    page.wait_for_timeout(300)


def plan(page: Page) -> None:
    go(page, "/plan?flow=flights")
    text = page.locator("textarea[name=text]").input_value()
    assert EDIT[0] in text
    write(page, text.replace(*EDIT))
    page.get_by_role("button", name="Plan", exact=True).click()
    page.wait_for_selector("text=Plan of an edit")
    page.wait_for_selector(".cm-content")
    page.wait_for_timeout(300)


@dataclass
class Film:
    """Frames, and for how many milliseconds each is seen."""

    page: Page
    frames: list[Image.Image] = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def show(self, ms: int = 1200) -> None:
        whole = Image.open(BytesIO(self.page.screenshot())).convert("RGB")
        self.frames.append(whole.resize(SMALLER, Image.Resampling.LANCZOS))
        self.times.append(ms)

    def save(self, path: Path) -> None:
        """All frames in the colours of some, so that what stays the same from one to the next costs
        nothing."""
        strip = Image.new("RGB", (SMALLER[0], SMALLER[1] * len(self.frames)))
        for number, frame in enumerate(self.frames):
            strip.paste(frame, (0, SMALLER[1] * number))
        palette = Image.new("P", (1, 1))
        palette.putpalette(
            [
                *_colours(strip, Image.Quantize.MEDIANCUT),
                *_colours(strip, Image.Quantize.MAXCOVERAGE),
            ]
        )
        first, *rest = [
            frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames
        ]
        first.save(
            path, save_all=True, append_images=rest, duration=self.times, loop=0, optimize=True
        )


def _colours(image: Image.Image, how: Image.Quantize) -> list[int]:
    """Of grounds, which are wide, by one way; of marks, which are small and bright, by the
    other."""
    return (image.quantize(COLOURS, how, dither=Image.Dither.NONE).getpalette() or [])[
        : 3 * COLOURS
    ]


def record(page: Page) -> None:
    """What there is, why it is so, what late data reached, a query, and what an edit would cost."""
    film = Film(page)
    go(page, "/")
    film.show(1800)
    go(page, "/flows/flights")
    film.show(1800)
    for name in ("flights.flights", "flights.delays", "flights.by_route"):
        page.locator(f"[id='n-{name}']").focus()
        film.show(700)
    page.keyboard.press("Enter")
    page.wait_for_url("**on=flights.by_route")
    page.wait_for_timeout(400)
    film.show(1800)
    go(page, "/datasets/flights.delays")
    film.show(2000)
    go(page, "/datasets/flights.delays?gen=2")
    film.show(2200)
    go(page, "/datasets/flights.delays?tab=data")
    page.wait_for_selector("#records tbody")
    film.show(1600)
    _ask_slowly(page, film)
    _plan_slowly(page, film)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.wait_for_timeout(200)
    film.show(2600)
    film.save(PICTURES / "tour.gif")


def _ask_slowly(page: Page, film: Film) -> None:
    go(page, "/query")
    lines = QUERY.split("\n")
    for number in range(1, len(lines) + 1):
        write(page, "\n".join(lines[:number]))
        film.show(450)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#rowsh")
    page.wait_for_timeout(300)
    film.show(2600)


def _plan_slowly(page: Page, film: Film) -> None:
    go(page, "/plan?flow=flights")
    film.show(1500)
    plan(page)
    film.show(3000)


if __name__ == "__main__":
    main()
