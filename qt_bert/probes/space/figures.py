"""The pictures of `space`: scores by layer, and a few layers in two dimensions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from qt_bert.figures import Curve, Figure, Mark, Point, Scatter, Series
from qt_bert.probes.display import resting_on
from qt_bert.probes.space.items import Labelling
from qt_bert.probes.space.planes import Plane
from qt_bert.probes.space.scores import Score
from qt_bert.probes.space.study import Study
from qt_bert.probes.space.words import LABELLINGS, METHODS, SCORE, class_name
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text
from qt_bert.text import number as said_number

_NAMED_A_CLASS = 2
_DIGITS = 3


def figures(study: Study) -> tuple[Figure, ...]:
    """The scores of every layer, then the first, the middle and the last layer."""
    own: list[Figure] = [_scores(study)] if study.validation.scores else []
    own += [
        scatter(study, method, name, number, plane)
        for (method, name, number), plane in study.planes.items()
    ]
    return tuple(resting_on(_sample(study), own))


def _sample(study: Study) -> Text:
    items = study.validation.items
    sizes = {name: len(one.rows) for name, one in items.labellings.items()}
    words = sizes.get("speech", sizes.get("side", 0))
    return Text(f"{items.pairs:,} 对，{words:,} 个词", f"{items.pairs:,} pairs, {words:,} words")


def _scores(study: Study) -> Curve:
    series: list[Series] = []
    for name, scores in study.validation.scores.items():
        said = LABELLINGS[name]
        series.append(Series(name=said, points=tuple(map(_point, range(len(scores)), scores))))
    for name, scores in study.validation.scores.items():
        said = LABELLINGS[name]
        chance = [Point(x=i, y=float(one.permuted.mean())) for i, one in enumerate(scores)]
        title = Text(f"{said.zh}（标签打乱）", f"{said.en} (labels permuted)")
        series.append(Series(name=title, points=tuple(chance), dashed=True))
    return Curve(
        name="silhouettes",
        title=Text("每一层聚得多紧", "How tightly classes lie together, by layer"),
        x_label=Text(
            "r（0 是词嵌入，其后是各层的输出）", "r (0: embeddings, then each layer's output)"
        ),
        y_label=SCORE,
        unit="",
        series=tuple(series),
        note=Text(
            "在全部维度上算，不是在图上算：1 是各自成团，0 是混在一起，负数是离别的类更近。",
            "Of all dimensions, not of the pictures: 1 is apart, 0 mixed, below 0 nearer to another class.",
        ),
    )


def _point(number: int, score: Score) -> Point:
    low, high = percentile_interval(score.found.samples) or (None, None)
    return Point(x=number, y=score.found.value, low=low, high=high, n=score.found.n_queries)


def scatter(study: Study, method: str, name: str, number: int, plane: Plane) -> Scatter:
    """One picture: items at their places, in the colour and shape of their class."""
    labelling, said = study.validation.items.labellings[name], LABELLINGS[name]
    found = said_number(study.validation.scores[name][number].found.value, 2)
    labelled = dict(_examples(labelling, plane)) if name == "speech" else {}
    order = np.argsort(labelling.labels, kind="stable")
    return Scatter(
        name=f"{method}_{name}_r{number}",
        title=Text(
            f"{said.zh}：r{number}，{METHODS[method].zh}（轮廓系数 {found}）",
            f"{said.en}: r{number}, {METHODS[method].en} (silhouette {found})",
        ),
        x_label=plane.axes[0],
        y_label=plane.axes[1],
        points=tuple(
            Mark(
                x=round(float(plane.at[place, 0]), _DIGITS),
                y=round(float(plane.at[place, 1]), _DIGITS),
                series=class_name(labelling.classes[labelling.labels[place]]),
                label=labelled.get(int(place)),
            )
            for place in order
        ),
    )


def _examples(labelling: Labelling, plane: Plane) -> Iterator[tuple[int, str]]:
    """Of each class the words furthest out, where a name covers least, by their place."""
    away = np.linalg.norm(plane.at - plane.at.mean(axis=0), axis=1)
    for number in range(len(labelling.classes)):
        own = np.flatnonzero(labelling.labels == number)
        for place in own[np.argsort(-away[own], kind="stable")][:_NAMED_A_CLASS]:
            yield int(place), labelling.texts[place]
