"""A running server and a real Chromium, shared by the browser tests; its visitors, watched."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.driving.chromium import launched
from tests.browser.driving.server import Server, serving
from tests.browser.driving.visitor import Visitor, visiting

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here drives a browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("browser")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The page on what ships, started from a folder that is not the repository."""
    with serving(tmp_path_factory.mktemp("elsewhere")) as running:
        yield running


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, headless."""
    with sync_playwright() as playwright, launched(playwright.chromium) as browser:
        yield browser


@pytest.fixture
def visitor(server: Server, chromium: Browser) -> Iterator[Callable[..., Visitor]]:
    """`visitor()`: a person with a context of their own. At the end of the test, whoever came must
    have seen no console error, no dialog, no request to elsewhere and no trace."""
    before = len(server.printed())
    with ExitStack() as stack:
        came: list[Visitor] = []

        def arrive(**options: Any) -> Visitor:
            came.append(stack.enter_context(visiting(chromium, server.url, **options)))
            return came[-1]

        yield arrive
        for one in came:
            assert one.faults() == []
    printed = server.printed()[before:]
    assert "Traceback" not in printed, printed
