"""What an eye would see at once: a page that is too wide, texts that are cut off, boxes for letters."""

from playwright.sync_api import Page

# How far the page can be pushed sideways.
_OVERFLOW = """
() => {
  const places = [document.documentElement, ...document.querySelectorAll('[data-testid=stMain]')];
  return Math.max(...places.map(one => one.scrollWidth - one.clientWidth));
}
"""

# Texts that do not fit their own box and are cut: with an ellipsis, or by a box that hides the rest.
# What scrolls of itself, what is only read aloud, and a sidebar folded away are not cut.
_CLIPPED = """
() => {
  const cut = [];
  const seen = document.querySelectorAll('[data-testid=stMain] *, [data-testid=stSidebar] *, header *');
  for (const one of seen) {
    const own = [...one.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !one.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (one.closest('[data-testid=stSidebar][data-collapsed=true]')) continue;
    const box = one.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || one.closest('table[role=grid], .vega-embed, svg')) continue;
    const range = document.createRange();
    range.selectNodeContents(one);
    const text = range.getBoundingClientRect();
    for (let up = one; up && up.dataset?.testid !== 'stApp'; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (/auto|scroll/.test(style.overflowX + style.overflowY)) break;
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
      const edge = up.getBoundingClientRect();
      const beyond = Math.max(
        style.overflowX === 'visible' ? 0 : Math.max(text.right - edge.right, edge.left - text.left),
        style.overflowY === 'visible' ? 0 : text.bottom - edge.bottom,
      );
      if (beyond > 2) { cut.push(one.innerText.trim().slice(0, 60)); break; }
    }
  }
  return [...new Set(cut)];
}
"""

# Charts wider than the place they were given.
_WIDE_CHARTS = """
() => [...document.querySelectorAll('[data-testid=stVegaLiteChart]')].filter(chart => {
  if (chart.closest('[data-testid=stSidebar][data-collapsed=true]')) return false;
  const picture = chart.querySelector('canvas, svg.marks');
  return picture && picture.getBoundingClientRect().right > chart.getBoundingClientRect().right + 2;
}).map(chart => chart.closest('[class*=st-key-figure]')?.className ?? chart.innerText)
"""

# Letters that no font here has are all drawn alike; a Chinese one must not look like them.
_BOXES = """
text => {
  const font = getComputedStyle(document.querySelector('[data-testid=stMain]')).fontFamily;
  const drawn = letter => {
    const canvas = document.createElement('canvas');
    const pen = canvas.getContext('2d');
    pen.font = `32px ${font}`;
    pen.fillText(letter, 4, 40);
    return canvas.toDataURL();
  };
  const box = drawn('\\u{10FFFD}');
  return [...text].filter(letter => drawn(letter) === box);
}
"""

# Texts and the contrast of their colour with the first solid colour behind them.
_CONTRASTS = """
() => {
  const parsed = colour => {
    const found = colour.match(/[\\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    // A mixed colour is color(srgb r g b), each from 0 to 1.
    const scale = colour.startsWith('color(srgb') ? 255 : 1;
    return { rgb: found.slice(0, 3).map(c => c * scale), alpha: found[3] ?? 1 };
  };
  const light = rgb => rgb
    .map(c => c / 255)
    .map(c => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, under) => top.rgb.map((c, i) => c * top.alpha + under[i] * (1 - top.alpha));
  const behind = one => {
    const layers = [];
    for (let up = one; up; up = up.parentElement) {
      const colour = parsed(getComputedStyle(up).backgroundColor);
      if (colour.alpha > 0) layers.push(colour);
      if (colour.alpha === 1) break;
    }
    return layers.reduceRight((under, top) => over(top, under), [255, 255, 255]);
  };
  const found = [];
  for (const one of document.querySelectorAll('[data-testid=stMain] *, [data-testid=stSidebar] *')) {
    const own = [...one.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !one.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (one.closest('table[role=grid], .vega-embed, [disabled], [aria-disabled=true]')) continue;
    const ground = behind(one);
    const letters = light(over(parsed(getComputedStyle(one).color), ground));
    const [dim, bright] = [letters, light(ground)].sort((a, b) => a - b);
    found.push([one.innerText?.trim().slice(0, 60) ?? '', (bright + 0.05) / (dim + 0.05)]);
  }
  return found;
}
"""


def faults(page: Page, least: float = 3.0) -> list[str]:
    """What is wrong with a page's looks; empty is good.

    Pixels by which it can be pushed sideways, texts of which a part is hidden, charts cut off at
    their right edge, texts whose contrast with what lies behind them is below `least` : 1 (WCAG
    2.2, 1.4.3).
    """
    beyond = int(page.evaluate(_OVERFLOW))
    faint = [text for text, ratio in page.evaluate(_CONTRASTS) if ratio < least]
    return [
        *([f"{beyond} pixels too wide"] if beyond > 0 else []),
        *(f"cut off: {text}" for text in page.evaluate(_CLIPPED)),
        *(f"wide chart: {text}" for text in page.evaluate(_WIDE_CHARTS)),
        *(f"faint: {text}" for text in faint),
    ]


def boxes(page: Page, text: str) -> list[str]:
    """Letters of `text` for which the page's fonts have no picture."""
    return list(page.evaluate(_BOXES, text))
