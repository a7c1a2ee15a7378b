"""Token rows: text whose tokens are coloured by a value, as HTML, for report and page."""

from __future__ import annotations

import html

from qt_bert.charts import STEP, STEPS
from qt_bert.figures import Token, Tokens
from qt_bert.results.palette import LIGHT, Palette, Shades, ink_on
from qt_bert.text import FONT, SMALL, Words, number, printable


def token_rows(figure: Tokens, language: str, palette: Palette = LIGHT) -> str:
    """Lines of tokens as HTML, each token on the colour of its value; word ends are strokes.

    The text wraps where its place ends. All that comes from the figure is escaped.
    """
    localised = Words(language)
    tokens = [token for line in figure.lines for token in line.tokens]
    shades = Shades.over((token.value for token in tokens), figure.scale, figure.low, figure.high)
    parts = []
    for line in figure.lines:
        boxes = "".join(_token(token, figure, shades, localised, palette) for token in line.tokens)
        parts.append(
            f'<div style="color:{palette.muted};font-size:{SMALL}px;margin-top:6px">'
            f"{html.escape(localised(line.name))}</div>"
            f'<div style="display:flex;flex-wrap:wrap;gap:4px 2px;padding:2px 0">{boxes}</div>'
        )
    if any(token.value is not None for token in tokens):
        parts.append(_token_legend(shades, localised(figure.unit), figure.digits, palette))
    return f'<div class="tokens">{"".join(parts)}</div>'


def _token(token: Token, figure: Tokens, shades: Shades, localised: Words, palette: Palette) -> str:
    hue, share = shades(token.value) if token.value is not None else ("heat", 0.0)
    shown = f"{number(token.value, figure.digits)} {localised(figure.unit)}".rstrip()
    tip = f"{printable(token.text)}: {shown}"
    if token.note is not None:
        tip = f"{tip} · {localised(token.note)}"
    colour = getattr(palette, ink_on(hue, share)) if hue != "missing" else palette.ink
    outline = f"2px solid {palette.ink}" if token.marked else f"1px solid {palette.grid}"
    box = (
        f"background:{_mix(palette, hue, share)};color:{colour};outline:{outline};"
        "outline-offset:-1px;border-radius:3px;padding:2px 5px;min-width:1em;text-align:center;"
        "max-width:100%;overflow:hidden;text-overflow:ellipsis;white-space:pre;"
        f"font-size:{FONT}px;line-height:1.5"
    )
    end = (
        f'<i style="width:0;border-left:2px solid {palette.positive};margin:-1px 0"></i>'
        if token.ends_word
        else ""
    )
    words = html.escape(printable(token.text)) or "&#160;"
    return f'<span title="{html.escape(tip)}" style="{box}">{words}</span>{end}'


def _token_legend(shades: Shades, unit: str, digits: int, palette: Palette) -> str:
    steps = "".join(
        f'<i style="width:{STEP}px;background:{_mix(palette, *shades(value))}"></i>'
        for value in shades.strip(STEPS)
    )
    ends = (html.escape(number(float(end), digits)) for end in (shades.low, shades.high))
    return (
        f'<div style="color:{palette.muted};font-size:{SMALL}px;margin-top:10px;display:flex;'
        f'gap:8px;align-items:center;flex-wrap:wrap"><span>{next(ends)}</span>'
        f'<span style="display:flex;height:8px">{steps}</span><span>{next(ends)}</span>'
        f"<span>{html.escape(unit)}</span></div>"
    )


def _mix(palette: Palette, hue: str, share: float) -> str:
    """The surface with its share of the hue, which a browser mixes."""
    full = palette.grid if hue == "missing" else getattr(palette, hue)
    return f"color-mix(in srgb, {full} {100 * share:.1f}%, {palette.surface})"
