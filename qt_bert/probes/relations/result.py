"""The study of links as a probe's result."""

from __future__ import annotations

from typing import Any

import numpy as np

from qt_bert.models.heads import Head, names_of
from qt_bert.probes.base import Context
from qt_bert.probes.display import known
from qt_bert.probes.naming import LEAST_WEIGHT
from qt_bert.probes.relations.aligned import ALIGNED
from qt_bert.probes.relations.claims import findings
from qt_bert.probes.relations.figures import figures
from qt_bert.probes.relations.heads import LEAST_RATIO
from qt_bert.probes.relations.leaving_out import MODE
from qt_bert.probes.relations.sentences import LEAST_DISTANCE, LEAST_LINKS
from qt_bert.probes.relations.stable import stable_relations
from qt_bert.probes.relations.study import Part, Study
from qt_bert.probes.relations.summary import resolution, summary
from qt_bert.results.probe import HeadScores, ProbeResult


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    found = findings(study, context)
    named = study.named
    order = set(study.order_heads or ())
    sets = {
        "relations": named,
        "relations_words": _of_words(study),
        "relations_in_order": [head for head in named if head in order],
    }
    return ProbeResult(
        probe="relations",
        model=context.model_ref,
        pairs=context.pairs_ref,
        settings=_settings(study, context) | {"resolution": resolution(found)},
        summary=summary(study),
        findings=tuple(found),
        heads=_heads(study),
        sets={name: names_of(heads) for name, heads in sets.items()},
        stability=stable_relations(study, context.seed),
        figures=figures(study, context),
    )


def _of_words(study: Study) -> list[Head]:
    found = (head for relation, head in study.discovery.named.items() if relation != ALIGNED)
    return list(dict.fromkeys(found))


def _heads(study: Study) -> tuple[HeadScores, ...]:
    """Of every relation: the excess on both halves, and p against the largest head on discovery."""
    columns: dict[str, np.ndarray] = {"weight_on_text": study.discovery.own}
    for relation in study.relations:
        first, second = study.discovery.excesses[relation], study.validation.excesses[relation]
        columns |= {
            f"discovery_{relation}": first.value,
            relation: second.value,
            f"times_{relation}": second.times,
            f"p_{relation}": first.p,
        }
    named, order = set(study.named), set(study.order_heads or ())
    return tuple(
        HeadScores(
            head=str(head),
            scores={
                **{name: known(float(column[place])) for name, column in columns.items()},
                **({"order_head": float(head in order)} if named else {}),
            },
            selected=head in named,
        )
        for place, head in enumerate(study.discovery.heads)
    )


def _settings(study: Study, context: Context) -> dict[str, Any]:
    left_out = study.left_out
    return {
        "looked_at": "base" if study.on_base else "model",
        "treebanks": [path.name for path in context.treebanks],
        "least_distance": LEAST_DISTANCE,
        "least_links": LEAST_LINKS,
        "least_ratio": LEAST_RATIO,
        "least_weight": LEAST_WEIGHT,
        "exchanges": study.draws,
        "words": None if study.words is None else _sizes(study.words),
        "aligned": _sizes(study.aligned),
        "relations": {relation: _relation(study, relation) for relation in study.relations},
        "order_heads": None if study.order_heads is None else len(study.order_heads),
        "leaving_out": None
        if left_out is None
        else {
            "mode": MODE,
            "metric": left_out.metric,
            "pairs": len(left_out.pairs),
            "queries": left_out.n_queries,
            "change": {str(loss.head): loss.change for loss in left_out.losses},
        },
    }


def _sizes(part: Part) -> dict[str, Any]:
    halves = {"discovery": part.discovery, "validation": part.validation}
    found: dict[str, Any] = {
        name: {
            "texts": len(links.pairs),
            "linked": int(links.linked.sum()),
            "unlinked": int((~links.linked).sum()),
            "unmatched": sum(links.unmatched.values()),
        }
        for name, links in halves.items()
    }
    for name, read in zip(halves, part.read or (), strict=False):
        found[name]["sentences_left_out"] = read.left_out
    return found


def _relation(study: Study, relation: str) -> dict[str, Any]:
    """What a table of relations shows."""
    first, second = study.discovery.excesses[relation], study.validation.excesses[relation]
    column, head = first.best, study.discovery.best(relation)
    return {
        "head": str(head),
        "named": relation in study.discovery.named,
        "order_head": None if study.order_heads is None else head in study.order_heads,
        "passing": study.discovery.passing.get(relation, 0),
        "q": study.discovery.q[relation],
        "times": {
            "discovery": known(float(first.times[column])),
            "validation": known(float(second.times[column])),
        },
        "links": {"discovery": first.n, "validation": second.n},
    }
