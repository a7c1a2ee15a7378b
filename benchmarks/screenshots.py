"""Take the README's screenshots of the inspection page, with a server and Chromium.

    python -m benchmarks.screenshots [--out docs/images]

Each is a page on the shipped model at a link that anyone can open.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import sync_playwright

from benchmarks.common.command import parser_of
from qt_bert.files import atomic_write
from tests.browser.driving.chromium import launched
from tests.browser.driving.server import serving
from tests.browser.driving.visitor import visiting

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
MOST_BYTES = 300_000
SCALE, COLOURS = 1.5, 256


@dataclass(frozen=True)
class Shot:
    """A page, its link, the window, light or dark."""

    name: str
    page: str
    size: tuple[int, int] = (1280, 900)
    dark: bool = False
    link: dict[str, str | int] = field(default_factory=dict)


SHOTS = (
    Shot("focus", "focus"),
    Shot("atlas", "atlas", link={"lang": "en", "layer": 2, "head": 1}),
    Shot("attention", "attention", dark=True),
)


def main(arguments: list[str] | None = None) -> None:
    """Take the screenshots and print their paths and sizes."""
    out = parse(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory() as elsewhere,
        sync_playwright() as playwright,
        launched(playwright.chromium) as browser,
        serving(Path(elsewhere)) as server,
    ):
        for shot in SHOTS:
            raw = Path(elsewhere) / "raw.png"
            with visiting(
                browser, server.url, size=shot.size, dark=shot.dark, scale=SCALE
            ) as visitor:
                visitor.open(shot.page, **shot.link)
                visitor.settle(1_000)
                visitor.picture(raw)
            path = out / f"{shot.name}.png"
            print(f"{path}: {save_small(raw, path) / 1000:.0f} kB")


def save_small(raw: Path, path: Path) -> int:
    """Save a picture, with a palette if it is too large; returns its bytes. Raises ValueError where it is
    still too large."""
    with Image.open(raw) as picture:
        whole = picture.convert("RGB")
    for image in (whole, whole.quantize(COLOURS, dither=Image.Dither.NONE)):
        with atomic_write(path) as temporary:
            image.save(temporary, format="PNG", optimize=True)
        size = path.stat().st_size
        if size <= MOST_BYTES:
            return size
    raise ValueError(f"{path} has {size:,} bytes, and {MOST_BYTES:,} is the most")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
