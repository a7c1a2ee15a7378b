"""How much of a set of matching heads comes back."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qt_bert.encoder.heads import Head
from qt_bert.probes.common.stability import Elsewhere, Rule, among, mask_of, stability
from qt_bert.probes.term_matching.head_scores import Scores
from qt_bert.results import Text
from qt_bert.results.stability import Stability


def stable_matching(
    scores: Scores | None,
    chosen: Collection[Head],
    *,
    seed: int,
    direction: int | None = None,
    within: Collection[Head] | None = None,
    elsewhere: Mapping[Text, Scores] | None = None,
) -> Stability | None:
    """The stability of heads that are the best by `scores`, of all, or of those `within`.

    `direction`: chosen among heads of this better direction. `elsewhere` are scores of other data
    or another model, by name.
    """
    if scores is None:
        return None

    def rule(of: Scores) -> Rule:
        found = of.rule(direction)
        return found if within is None else among(found, mask_of(within, of.score.shape))

    pool = [head for head in scores.eligible if within is None or head in within]
    return stability(
        rule(scores),
        chosen,
        scores.sums.n_queries,
        pool=pool,
        elsewhere=[
            Elsewhere(name, rule(one), one.sums.n_queries)
            for name, one in (elsewhere or {}).items()
        ],
        seed=seed,
    )
