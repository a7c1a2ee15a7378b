"""Debian's Chromium under playwright; no browser is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserType

FLAGS = ("--disable-dev-shm-usage", "--font-render-hinting=none")


def executable() -> str:
    """The browser's path: $CHROMIUM, or `chromium`. Raises RuntimeError where there is none."""
    name = os.environ.get("CHROMIUM", "chromium")
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(f"no {name} here: `make test-browser` says what to install")
    return found


def options() -> dict[str, object]:
    """How the browser is started: headless; without its sandbox for root, who cannot have one."""
    alone = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
    return {"executable_path": executable(), "headless": True, "args": [*FLAGS, *alone]}


@contextmanager
def launched(kind: BrowserType) -> Iterator[Browser]:
    """A running browser, closed at the end."""
    browser = kind.launch(**options())  # type: ignore[arg-type]
    try:
        yield browser
    finally:
        browser.close()
