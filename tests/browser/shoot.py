"""Pictures of a report in a real browser, and what only a browser can tell (``make screenshots``, by hand).

The page is opened light, dark, as wide as a phone and as for print. It fails where the page asks the network
for anything, writes to the console, or is wider than the screen.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

TALLEST = 4000
"""Pixels of a page that a picture holds; pages of large runs are longer."""


@dataclass(frozen=True, slots=True)
class View:
    name: str
    width: int
    height: int
    scheme: Literal["light", "dark"]


VIEWS = (
    View("light", 1280, 900, "light"),
    View("dark", 1280, 900, "dark"),
    View("phone", 390, 844, "light"),
    View("phone-dark", 390, 844, "dark"),
)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--open", action="store_true", help="with every case and list unfolded")
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        for view in VIEWS:
            wrong += _shoot(browser, options.page, options.folder, view, unfold=options.open)
        _print(browser, options.page, options.folder / "print.pdf")
        browser.close()
    sys.stdout.writelines(f"wrong: {line}\n" for line in wrong)
    return bool(wrong)


def _shoot(browser: Browser, page: Path, folder: Path, view: View, *, unfold: bool) -> list[str]:
    """What is wrong with the page in this view; its picture goes into ``folder``."""
    context = browser.new_context(
        color_scheme=view.scheme,
        viewport={"width": view.width, "height": view.height},
        device_scale_factor=2 if view.width < 600 else 1,
        java_script_enabled=False,
    )
    tab = context.new_page()
    wrong, address = _watched(tab, page.resolve().as_uri())
    began = time.perf_counter()
    tab.goto(address)
    loaded_s = time.perf_counter() - began
    if unfold:
        tab.locator("html").evaluate("e => e.querySelectorAll('details').forEach(d => d.open = true)")
    width, height = tab.locator("html").evaluate("e => [e.scrollWidth, e.scrollHeight]")
    if width > view.width:
        wrong.append(f"it is {width} px wide on a screen of {view.width}")
    tab.set_viewport_size({"width": view.width, "height": min(height, TALLEST)})
    tab.screenshot(path=folder / f"{view.name}.png")
    context.close()
    sys.stdout.write(f"{view.name}: {width} x {height} px, loaded in {loaded_s:.2f} s\n")
    return [f"{view.name}: {line}" for line in wrong]


def _watched(tab: Page, address: str) -> tuple[list[str], str]:
    wrong: list[str] = []
    tab.on("request", lambda r: None if r.url == address else wrong.append(f"it asks for {r.url}"))
    tab.on("console", lambda m: wrong.append(f"the console says: {m.text}"))
    return wrong, address


def _print(browser: Browser, page: Path, file: Path) -> None:
    tab = browser.new_page()
    tab.goto(page.resolve().as_uri())
    tab.pdf(path=file, format="A4", landscape=True)
    tab.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
