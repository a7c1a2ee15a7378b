"""Times taken inside the browser: from a visitor's hand to the answer and to the changed number."""

import base64
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

# Runs before the page's own scripts. Keeps when the visitor last pressed a key or button, what the
# page sent and got over its web socket since, when the watched text was first seen changed; and
# when the page last asked the server for something and was last answered.
CLOCK = """
(() => {
  const clock = window.__clock = {
    pressed: 0, sent: 0, got: [], watched: null, changed: 0, asked: 0, answered: 0,
  };
  const press = () => { clock.pressed = performance.now(); };
  for (const kind of ['pointerdown', 'keydown']) addEventListener(kind, press, true);
  const Plain = window.WebSocket;
  window.WebSocket = class extends Plain {
    constructor(...given) {
      super(...given);
      this.addEventListener('message', ({ data }) => {
        const when = clock.answered = performance.now();
        if (data instanceof ArrayBuffer) clock.got.push([when, data.byteLength < 256 ? data : null]);
      });
    }
    send(data) {
      clock.asked = performance.now();
      if (!clock.sent) clock.sent = clock.asked;
      return super.send(data);
    }
  };
  const look = () => {
    const { watched } = clock;
    if (!watched || clock.changed) return;
    const text = document.querySelector(watched.selector)?.textContent;
    if (text && text !== watched.text) clock.changed = performance.now();
  };
  new MutationObserver(look).observe(document, {
    childList: true, subtree: true, characterData: true,
  });
})();
"""

START = """
selector => {
  const text = document.querySelector(selector)?.textContent ?? '';
  Object.assign(window.__clock, {
    pressed: 0, sent: 0, got: [], changed: 0, watched: { selector, text },
  });
}
"""

READ = """
() => {
  const { pressed, sent, got, changed } = window.__clock;
  const spelled = bytes => bytes && btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return { pressed, sent, changed, got: got.map(([when, bytes]) => [when, spelled(bytes)]) };
}
"""


@dataclass(frozen=True)
class Timed:
    """Milliseconds from a request until the browser had read the end of the answer; and from the
    visitor's key or click to the changed text."""

    answered: float
    seen: float


def start(page: Page, selector: str) -> None:
    """Begin to watch for a change of the text at `selector`."""
    page.evaluate(START, selector)


def read(page: Page) -> Timed:
    """The times since `start`; call it when the page has settled. Raises ValueError as `timed`."""
    return timed(page.evaluate(READ))


def timed(raw: dict[str, Any]) -> Timed:
    """What `READ` found. Raises ValueError where nothing was pressed, no run ended, or the text did
    not change."""
    ended = [when for when, message in raw["got"] if message and _ends_a_run(message)]
    if not (raw["pressed"] and raw["sent"] and ended and raw["changed"]):
        raise ValueError(
            f"no change was seen: {raw | {'got': len(raw['got']), 'ended': len(ended)}}"
        )
    return Timed(ended[-1] - raw["sent"], raw["changed"] - raw["pressed"])


def _ends_a_run(message: str) -> bool:
    from google.protobuf.message import DecodeError
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    try:
        return ForwardMsg.FromString(base64.b64decode(message)).HasField("script_finished")
    except DecodeError:
        return False
