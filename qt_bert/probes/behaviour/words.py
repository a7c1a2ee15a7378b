"""Words of the behaviour card: names, and what may be concluded from its claims."""

from __future__ import annotations

from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

SOURCE = Source(article="ABNIRML", section="3")
"""MacAvaney et al. 2022: pairs of texts, a neutral band, (wins − losses) / n; it has no Chinese."""

PHENOMENON = Text("现象", "phenomenon")
CASE_SCORE = Text("得分（判对减判错，除以案例数）", "score: (right − wrong) / cases")
BETTER_NAME = Text("应当更好", "better")
ALIKE_NAME = Text("应当相同", "alike")
NO_BAND = Text(
    "这个模型只给一个分数，容差要从它自己的排序里量，而发现集里没有一条查询有两个标题：请用 --band-from 给出"
    "这样的文件。",
    "This model gives one score, so that the band is measured on its own rankings, and no query of "
    "discovery has two titles: give a file that has such with --band-from.",
)
QUICK = Text(
    "快速运行只按层作图，不挑单个的头；--full 逐头作图，并在验证集上检验挑出的头。",
    "A quick run maps layers and chooses no head; --full maps every head, and tests those chosen on "
    "validation.",
)
CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "这种差别模型大体分得清：判对的多于判错的。",
        "The model tells this difference by and large: more cases are right than wrong.",
    ),
    "not reproduced": Text(
        "模型分不清这种差别：判对的不比判错的多。",
        "The model does not tell this difference: no more cases are right than wrong.",
    ),
    "inconclusive": Text(
        "看不出模型分得清这种差别：判对的不比判错的多出多少，或者多数差距都在容差以内。",
        "It does not show that the model tells this difference: hardly more cases are right than "
        "wrong, or most differences lie within the band.",
    ),
}
