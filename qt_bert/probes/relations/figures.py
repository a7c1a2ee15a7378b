"""The pictures of the study of links."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.figures import Bars, BarSeries, Figure, HeatMap
from qt_bert.probes.base import Context
from qt_bert.probes.claims import POINT, POINTS
from qt_bert.probes.display import head_map, known, resting_on, sample_of
from qt_bert.probes.relations.aligned import ALIGNED
from qt_bert.probes.relations.claims import chosen, resampled
from qt_bert.probes.relations.leaving_out import LeftOut
from qt_bert.probes.relations.study import Study
from qt_bert.probes.relations.tree import WAYS as TREE_WAYS
from qt_bert.probes.relations.tree import Tree
from qt_bert.probes.relations.words import ATTENTION, PERCENT, WAYS, in_head, relation_name
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import interval_or_reason
from qt_bert.text import Text, counted

MOST_MAPS = 3
"""Heat maps of so many relations of words, beside that of aligned spans."""

RELATION, METHOD = (
    Text("关系 · 头", "relation · head"),
    Text("怎样找支配词", "how words are attached"),
)


def figures(study: Study, context: Context) -> tuple[Figure, ...]:
    """The best head of every relation, heat maps of some, the tree, the heads left out."""
    drawn: list[Figure] = []
    if study.relations:
        drawn += [_best(study, context), _both(study)]
    drawn += [_map(study, relation) for relation in _shown(study)]
    if study.tree is not None and study.tree.words.sum():
        drawn.append(_tree(study.tree))
    if study.left_out is not None:
        drawn += resting_on(sample_of(study.left_out.pairs), (_losses(study.left_out),))
    return tuple(drawn)


def _shown(study: Study) -> Iterator[str]:
    """The relations of the largest excess on discovery, named ones first; then aligned spans."""
    named, found = study.discovery.named, study.discovery.excesses
    words = [relation for relation in study.relations if relation != ALIGNED]
    words.sort(key=lambda r: (r not in named, -found[r].value[found[r].best]))
    yield from words[:MOST_MAPS]
    if ALIGNED in study.relations:
        yield ALIGNED


def _ends(samples: FloatArray, units: int, unit: float) -> tuple[float, float] | None:
    low, high, _ = interval_or_reason(samples, units)
    return None if low is None or high is None else (low / unit, high / unit)


def _categories(study: Study) -> tuple[Text, ...]:
    order = set(study.order_heads or ())
    return tuple(
        in_head(relation, head := study.discovery.best(relation), order=head in order)
        for relation in study.relations
    )


def _rests(study: Study) -> Text:
    """How many links of each relation validation has."""
    listed = [(relation_name(r), study.validation.excesses[r].n) for r in study.relations]
    return Text(
        "，".join(f"{name.zh} {n}" for name, n in listed),
        ", ".join(f"{name.en} {n}" for name, n in listed),
    )


def _best(study: Study, context: Context) -> Bars:
    """The excess of each relation's head on validation."""
    values, intervals = [], []
    for relation in study.relations:
        one, sums = chosen(study, relation)
        column = study.discovery.excesses[relation].best
        values.append(known(float(one.value[column]) / PERCENT))
        units = int((one.counts > 0).sum())
        intervals.append(_ends(resampled(sums, one.counts, context), units, PERCENT))
    rests = _rests(study)
    return Bars(
        name="relations_best",
        title=Text("每种关系最好的头", "The best head of each relation"),
        x_label=RELATION,
        y_label=Text("有关系比没有关系多出的注意力", "attention, linked less unlinked"),
        unit=ATTENTION,
        categories=_categories(study),
        series=(
            BarSeries(
                name=Text("验证集", "validation"), values=tuple(values), intervals=tuple(intervals)
            ),
        ),
        digits=1,
        note=Text(
            "两个词之间最大的注意力（不分方向），减去同一句里距离和词长相同、没有关系的词；同义片段减去同样长的"
            "其他片段；有共同字的不计。头在发现集上选；（序）：也是语序头。"
            f"验证集上的对数：{rests.zh}",
            "The largest attention between two words, either way, less that of unlinked words of the "
            "same sentence, distance and lengths (of spans of one meaning: of other spans as long); "
            "none that share a character. Heads were chosen on discovery; (order): an order head, too. "
            f"Links on validation: {rests.en}",
        ),
    )


def _both(study: Study) -> Bars:
    """What linked and unlinked words get from the same heads."""
    linked, unlinked = [], []
    for relation in study.relations:
        one = study.validation.excesses[relation]
        column = study.discovery.excesses[relation].best
        linked.append(known(float(one.linked[column]) / PERCENT))
        unlinked.append(known(float(one.unlinked[column]) / PERCENT))
    return Bars(
        name="relations_linked",
        title=Text("有关系与没有关系的词各得多少", "What linked and unlinked words get"),
        x_label=RELATION,
        y_label=Text("最大的注意力，平均", "largest attention, mean"),
        unit=ATTENTION,
        categories=_categories(study),
        series=(
            BarSeries(name=Text("有关系", "linked"), values=tuple(linked)),
            BarSeries(name=Text("没有关系", "unlinked"), values=tuple(unlinked)),
        ),
        digits=1,
        note=Text(
            "验证集，每种关系在发现集上最好的头", "Validation, in the best head of discovery"
        ),
    )


def _map(study: Study, relation: str) -> HeatMap:
    one, name = study.validation.excesses[relation], relation_name(relation)
    head = study.discovery.best(relation)
    marked = [head] if relation in study.discovery.named else []
    return head_map(
        f"relations_{relation.replace(':', '_')}",
        Text(f"每个头：{name.zh}", f"Every head: {name.en}"),
        ATTENTION,
        study.shape.spread(one.value / PERCENT),
        marked=marked,
        scale="diverging",
        digits=1,
        note=Text(
            f"有关系的词比没有关系的多得的注意力，验证集 {one.n} 对；粗框：在发现集上被命名的头",
            f"Attention of linked words less that of unlinked ones, {counted(one.n, 'link')} of "
            "validation; outlined: the head named on discovery",
        ),
    )


def _tree(tree: Tree) -> Bars:
    scores = [tree.score(way) / POINT for way in TREE_WAYS]
    units = int((tree.words > 0).sum())
    words = int(tree.words.sum())
    return Bars(
        name="relations_tree",
        title=Text("注意力画出的句法树对了多少", "How much of the tree the attention draws"),
        x_label=METHOD,
        y_label=Text("找对支配词的词（UAS）", "words with the right head (UAS)"),
        unit=Text("%", "%"),
        categories=tuple(WAYS[way] for way in TREE_WAYS),
        series=(
            BarSeries(
                name=Text("验证集", "validation"),
                values=tuple(map(known, scores)),
                intervals=tuple(_ends(tree.samples(way), units, POINT) for way in TREE_WAYS),
            ),
        ),
        digits=1,
        note=Text(
            "每个词依附各关系最好的头给它权重最大的那个词（逐词选，不保证是树）；不计标点和根。依据："
            f"{units} 句，{words} 个词",
            "Each word hangs on the word that the relations' best heads give the most weight, one word "
            "at a time, so that it need not be a tree; without punctuation and roots. Base: "
            f"{counted(units, 'sentence')}, {counted(words, 'word')}",
        ),
    )


def _losses(found: LeftOut) -> Bars:
    metric = found.metric_name
    return Bars(
        name="relations_left_out",
        title=Text(
            f"逐个去掉这些头，{metric.zh}的变化", f"Change of {metric.en} without each of them"
        ),
        x_label=Text("头", "head"),
        y_label=Text("变化", "change"),
        unit=POINTS,
        categories=tuple(str(loss.head) for loss in found.losses),
        series=(
            BarSeries(
                name=Text("注意力改为均匀", "attention made uniform"),
                values=tuple(known(loss.change) for loss in found.losses),
                intervals=tuple(loss.interval for loss in found.losses),
            ),
        ),
        digits=1,
    )
