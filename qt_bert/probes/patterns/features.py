"""What the rules read of a map: a few numbers that say what the definitions of the kinds say."""

from __future__ import annotations

import torch

from qt_bert.probes.patterns.maps import Maps

COLUMNS, WIDTH = 4, 2
"""How many columns may make a vertical map; how far from itself a diagonal one looks."""

FEATURES = ("columns", "band", "stripes", "line", "even", "even_own")
"""`columns`, `band`: the mean weight of a row on the best four columns, and on offsets −2…2;
`stripes`, `line`: the same without the cells that the two have in common (columns that are best
outside the band); `even`, `even_own`: how evenly a row's weight is spread over all tokens and over
its own segment, 1 for alike everywhere."""

_TINY = 1e-9


def features(maps: Maps) -> torch.Tensor:
    """The FEATURES of every map [N, FEATURES]; means are over all rows that are no padding."""
    weights, real = maps.weights, maps.real
    band = maps.band(WIDTH)
    beside = _best_columns(weights * (1 - band))
    own = weights * maps.own
    size = maps.own.sum(-1)
    rows = {
        "columns": (weights * _best_columns(weights)).sum(-1),
        "band": (weights * band).sum(-1),
        "stripes": (weights * (1 - band) * beside).sum(-1),
        "line": (weights * band * (1 - beside)).sum(-1),
        "even": _evenness(weights, maps.lengths[:, None]),
        "even_own": _evenness(own / own.sum(-1, keepdim=True).clamp_min(_TINY), size) * own.sum(-1),
    }
    found = torch.stack([rows[name] for name in FEATURES], dim=-1)
    return (found * real[..., None]).sum(1) / maps.lengths[:, None]


def on_own_segment(maps: Maps) -> torch.Tensor:
    """How much more a row gives its own segment than an even row would [N]: 0 as that, 1 all of it."""
    given = ((maps.weights * maps.own).sum(-1) * maps.real).sum(-1) / maps.lengths
    even = (maps.own.sum(-1) * maps.real).sum(-1) / maps.lengths**2
    return (given - even) / (1 - even).clamp_min(_TINY)


def _best_columns(weights: torch.Tensor) -> torch.Tensor:
    """1 in the columns that all rows together give most [N, 1, L]."""
    most = weights.sum(1).topk(min(COLUMNS, weights.shape[-1]), dim=-1).indices
    return torch.zeros_like(weights[:, 0]).scatter_(1, most, 1.0)[:, None, :]


def _evenness(rows: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """exp(entropy) of each row over the number of tokens it could look at [N, L]."""
    return torch.special.entr(rows).sum(-1).exp() / size.clamp_min(1)
