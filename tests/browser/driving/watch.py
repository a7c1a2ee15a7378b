"""What must never happen in a visitor's browser, collected while it happens."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Error, Page, Route

VEGA = "WARN"
"""What a warning of a chart begins with, as of an infinite extent or a dropped fit."""
HOME = "127.0.0.1"


@dataclass
class Watch:
    """Console errors, uncaught exceptions, dialogs and requests to elsewhere of one context."""

    console: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    abroad: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext) -> None:
        """Watch every page of `context`; a request to elsewhere is noted and goes nowhere."""
        context.route(lambda url: urlsplit(url).hostname != HOME, self._refuse)
        context.on("page", self._watch)

    def _watch(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", self._error)
        page.on("dialog", self._dialog)
        page.on("websocket", lambda socket: self._socket(socket.url))

    def _refuse(self, route: Route) -> None:
        self.abroad.append(route.request.url)
        route.abort()

    def _socket(self, url: str) -> None:
        if urlsplit(url).hostname != HOME:
            self.abroad.append(url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" or message.text.startswith(VEGA):
            self.console.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _error(self, error: Error) -> None:
        self.console.append(f"uncaught: {error.message}\n{error.stack}")

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def faults(self) -> list[str]:
        """Everything that was seen, in words; empty is good."""
        return [
            *self.console,
            *(f"dialog: {text}" for text in self.dialogs),
            *(f"request to {url}" for url in self.abroad),
        ]
