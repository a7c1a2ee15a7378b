"""A person at the page: one browser context, and what hands and eyes do with it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.driving import clock
from tests.browser.driving.watch import Watch

FRONT = "focus"
PAGES = (FRONT, "attention", "atlas", "words", "order", "ranking", "behaviour", "evaluate")
WIDE, PHONE = (1280, 900), (390, 844)
PATIENCE = 60_000.0

TRACES = re.compile(r"Traceback|\.py\b|[A-Z]\w+Error\b|Exception|意外的错误|Something unexpected")
"""What a trace looks like, and the page's words where it hides one."""

# The script is done and what it drew is there: nothing asked that is not answered (unless for long:
# some messages want no answer), nothing stale, no skeleton, no spinner, no message of late, and so
# for a while. A browser at work draws no frame meanwhile, which looks like rest: a look counts for
# 50 ms at most, however late it comes.
SETTLED = """
quiet => {
  const app = document.querySelector('[data-testid=stApp]');
  const drawing = !app || app.dataset.testScriptState !== 'notRunning'
    || app.dataset.testConnectionState !== 'CONNECTED'
    || document.querySelector('[data-stale=true], [data-testid=stSkeleton], [data-testid=stSpinner]');
  const now = performance.now();
  const { asked, answered } = window.__clock;
  const unanswered = asked > answered && now - asked < 30000;
  const { still, looked } = window.__settled ?? { still: 0, looked: now };
  const longer = still + Math.min(now - looked, 50);
  window.__settled = { still: drawing || unanswered ? 0 : longer, looked: now };
  return window.__settled.still >= quiet && now - answered >= quiet;
}
"""

# The uploader shows the file, which has arrived or was refused.
UPLOADED = """
uploader => {
  const shown = name => document.querySelector(`${uploader} [data-testid=stFileChip${name}]`);
  return shown('') && !shown('IconSpinner');
}
"""


def path_of(name: str) -> str:
    """A page's path in the address; the front page has none."""
    return "" if name == FRONT else name


class Visitor:
    """One visitor of the server at `url`; `watch` holds what must not have happened."""

    def __init__(self, page: Page, url: str, watch: Watch) -> None:
        self.page, self.url, self.watch = page, url, watch

    def open(self, name: str = FRONT, **link: str | int) -> None:
        """Follow a link to a page, with the state in its address."""
        address = f"{self.url}/{path_of(name)}" + (f"?{urlencode(link)}" if link else "")
        self.page.goto(address, wait_until="domcontentloaded")
        self.settle()

    def settle(self, quiet: float = 250) -> None:
        """Wait until the page has been drawn and stays so for `quiet` milliseconds."""
        self.page.evaluate("() => { delete window.__settled; }")
        self.page.wait_for_function(SETTLED, arg=quiet, timeout=PATIENCE)

    def go(self, name: str) -> None:
        """Change the page by its link in the navigation."""
        self.page.locator(f'a[href="{self.url}/{path_of(name)}"]').first.click()
        address = re.compile(rf":\d+/{path_of(name)}(\?|$)")
        expect(self.page).to_have_url(address, timeout=PATIENCE)
        self.settle()

    def element(self, key: str) -> Locator:
        """The widget or container that the page gave this key."""
        return self.page.locator(f".st-key-{key}")

    def field(self, key: str) -> Locator:
        """The field of a text or number widget."""
        return self.element(key).locator("input, textarea").first

    def type(self, key: str, text: str) -> None:
        """Fill a field and press Enter."""
        field = self.field(key)
        field.fill(text)
        field.press("Enter")
        self.settle()

    def pair(self, query: str, title: str) -> None:
        """Type a query and a title."""
        self.type("side-query", query)
        self.type("side-title", title)

    def leave_out(self, heads: str) -> None:
        """Type the heads to leave out."""
        self.type("side-out", heads)

    def choose(self, key: str, text: str) -> None:
        """Choose the option of a select box whose words begin with `text`."""
        self.element(key).get_by_role("combobox").click()
        self.page.get_by_role("option", name=re.compile(f"^{re.escape(text)}")).first.click()
        self.settle()

    def upload(self, key: str, name: str, content: bytes) -> None:
        """Put a file into an uploader; wait until it is there, or refused, and the page is drawn.

        The file travels outside the page's socket: until it has arrived, the page looks settled.
        """
        file: Any = {"name": name, "mimeType": "text/tab-separated-values", "buffer": content}
        self.element(key).locator("input[type=file]").set_input_files(file)
        self.page.wait_for_function(UPLOADED, arg=f".st-key-{key}", timeout=PATIENCE)
        self.settle(600)

    def source(self, key: str, name: str, then: str) -> None:
        """Choose among buttons, and again where the page was being redrawn under the hand.

        `then` is the widget that comes with the choice.
        """

        def chosen() -> None:
            self.element(key).get_by_text(name).click()
            self.settle()

        chosen()
        if not self.element(then).count():
            chosen()

    def answered(self, act: Callable[[], object]) -> None:
        """Do `act`, which makes the page ask the server, however late; wait for what it draws."""
        asked = self.page.evaluate("() => window.__clock.asked")
        act()
        self.page.wait_for_function("asked => window.__clock.asked > asked", arg=asked)
        self.settle()

    @property
    def main(self) -> Locator:
        """The page without sidebar and navigation."""
        return self.page.get_by_test_id("stMain")

    def timed(self, selector: str, act: Callable[[], object]) -> clock.Timed:
        """The times of what `act` does, until the text at `selector` has changed and all is drawn."""
        clock.start(self.page, selector)
        act()
        self.page.wait_for_function("() => window.__clock.changed", timeout=PATIENCE)
        self.settle()
        return clock.read(self.page)

    def metrics(self) -> list[str]:
        """The values of the page's numbers, in order."""
        return self.main.get_by_test_id("stMetricValue").all_inner_texts()

    def words(self) -> str:
        """All text of the page, sidebar included."""
        return str(self.page.get_by_test_id("stApp").inner_text())

    def state(self) -> dict[str, str]:
        """What the address says."""
        return {key: values[0] for key, values in parse_qs(urlsplit(self.page.url).query).items()}

    def faults(self) -> list[str]:
        """What went wrong in this visitor's browser, and traces on the page; empty is good."""
        words = self.words() if self.page.url.startswith(self.url) else ""
        return [*self.watch.faults(), *(f"on the page: {t}" for t in TRACES.findall(words))]

    def look(self, size: tuple[int, int], theme: Literal["light", "dark"]) -> None:
        """Turn to light or dark and a window of this size, under the page as it stands."""
        self.page.emulate_media(color_scheme=theme)
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.settle()

    def picture(self, path: Path) -> None:
        """Save what is seen."""
        self.page.screenshot(path=path)


@contextmanager
def visiting(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = WIDE,
    dark: bool = False,
    scale: float = 1,
) -> Iterator[Visitor]:
    """A visitor with a browser context of their own."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        device_scale_factor=scale,
        locale="zh-CN",
        accept_downloads=True,
    )
    context.set_default_timeout(PATIENCE)
    context.add_init_script(clock.CLOCK)
    watch = Watch()
    watch.over(context)
    try:
        yield Visitor(context.new_page(), url, watch)
    finally:
        context.close()
