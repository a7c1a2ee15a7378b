"""The study of word boundaries in a few sentences, and what it could not have seen."""

from __future__ import annotations

import numpy as np

from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.claims import POINT
from qt_bert.probes.common.base import sample
from qt_bert.probes.word_ends.figures import answers
from qt_bert.probes.word_ends.leaving_out import LeftOut
from qt_bert.probes.word_ends.study import Studies, Study
from qt_bert.probes.word_ends.words import CONTROLS, GRADED, UNKNOWN, decimals, percent
from qt_bert.results import Text

MATCHED = "zero:matched"


def summary(found: Studies) -> Text:
    """The best head, the union, the heads left out."""
    study = found.main
    if not len(study.texts.validation) or not len(study.texts.discovery):
        return Text(
            "文本里没有相邻且各成一个词元的汉字，无从判断词边界。",
            "The texts have no neighbouring Chinese characters that are tokens of their own, so "
            "there are no word ends to tell.",
        )
    parts = (_heads(study), _losses(found.left_out))
    return Text("".join(one.zh for one in parts), " ".join(one.en for one in parts if one.en))


def _heads(study: Study) -> Text:
    readers, best, named = study.graded, study.best(GRADED), study.graded.calibrated.named.heads()
    others = {name: judged for name, (_, judged) in answers(study).items()}
    plain, table = (percent(others[name].value("accuracy")) for name in ("majority", "characters"))
    accuracy, balanced = percent(best.value("accuracy")), decimals(best.value("balanced"))
    word_f1, last = decimals(best.value("word_f1")), len(readers.order)
    share, luck = percent(study.union.share[last]), percent(study.union.chance[last])
    return Text(
        f"被命名的词边界头有 {len(named)} 个。最好的一个（{readers.best}）在验证集上的准确率为 {accuracy}"
        f"（参照 {study.segmenter}；总猜多数 {plain}，每个字的词尾率 {table}），平衡准确率 {balanced}，"
        f"词 F1 {word_f1}。“有一个头正确”为 {share}，其中碰巧就有 {luck}。",
        f"Heads named as telling where words end: {len(named)}. The best ({readers.best}) has an accuracy of {accuracy} on "
        f"validation against {study.segmenter} (majority {plain}, each character's own rate "
        f"{table}), a balanced accuracy of {balanced} and a word F1 of {word_f1}. One of all heads is "
        f"right on {share}; by luck alone it would be {luck}.",
    )


def _losses(found: LeftOut | None) -> Text:
    """What leaving the best heads out does, what random ones do, and on how many pairs."""
    if found is None or np.isnan(found.losses[MATCHED].change):
        return Text("", "")
    loss, metric, n = found.losses[MATCHED], found.metric_name, len(found.heads)
    relative = f"{loss.change * POINT / found.base:+.1%}" if found.base > 0 else UNKNOWN
    beside = _beside(found)
    pairs, queries = len(found.pairs), found.n_queries
    return Text(
        f"去掉其中最好的 {n} 个，{metric.zh}变化 {loss.change:+.1f} 个百分点（相对 {relative}）"
        f"{beside.zh}（{pairs} 对，{queries} 个查询）。",
        f"Without the best {n} of them {metric.en} changes by {loss.change:+.1f} points ({relative} "
        f"relative){beside.en} ({sample(pairs, queries).en}).",
    )


def _beside(found: LeftOut) -> Text:
    """The controls' mean and the difference from it, where there are controls."""
    loss, control = found.losses[MATCHED], CONTROLS["matched"]
    if np.isnan(loss.value):
        return Text("", "")
    ends = found.interval(MATCHED)
    interval = "" if ends is None else f" [{ends[0]:.1f}, {ends[1]:.1f}]"
    return Text(
        f"；去掉{control.zh}平均变化 {loss.of_controls:+.1f}，相差 {loss.value:+.1f}{interval}",
        f"; without {control.en} it changes by {loss.of_controls:+.1f} on average, a difference of "
        f"{loss.value:+.1f}{interval}",
    )


def resolution(found: Studies) -> dict[str, str] | None:
    """Half the intervals: of the best head's balanced accuracy, and of the heads left out."""
    ends = percentile_interval(found.main.best(GRADED).samples("balanced"))
    if ends is None:
        return None
    half = (ends[1] - ends[0]) / 2 / POINT
    left_out = _without(found.left_out)
    return {
        "zh": f"最好的头的平衡准确率的区间半宽为 {half:.1f} 个百分点，更小的差别看不出来。{left_out.zh}",
        "en": f"The interval of the best head's balanced accuracy is ± {half:.1f} points; less than "
        f"that could not be seen.{left_out.en}",
    }


def _without(found: LeftOut | None) -> Text:
    ends = None if found is None else found.interval(MATCHED)
    if found is None or ends is None:
        return Text("", "")
    half, pairs, queries = (ends[1] - ends[0]) / 2, len(found.pairs), found.n_queries
    return Text(
        f"去掉被命名的头与去掉同层随机头之差的区间半宽为 {half:.1f} 个百分点（{pairs} 对，{queries} 个查询）。",
        " The interval of what leaving the named heads out costs beyond random heads of the same "
        f"layers is ± {half:.1f} points ({sample(pairs, queries).en}).",
    )
