"""What the page of words says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qt_bert.inspection.views.words import MOST_HEADS, Words
from qt_bert.results import Text
from qt_bert.results.stability import Stability, set_label

TITLE = Text("词：注意力头在哪里断词", "Words: where heads end them")
INTRO = Text(
    "文章（2.2）：有些头看得出词在哪里结束，一个字若是词尾，就看 [SEP]，否则看下一个字。下面各行是同一段"
    "文本，先由 jieba 断词，再由每个头断词。指到一个字上，可看判断背后的数。",
    "The article (2.2): some heads know where words end; a character that ends one looks at [SEP], "
    "else at the next character. Below is one text a row, cut by jieba, then by every head. Point at "
    "a character for the numbers behind its decision.",
)
TYPED = Text("也可以输入任意文本（代替句对）", "Or any text, in place of the pair")
TYPED_HELP = Text(
    "文本接在左栏的查询之后、标题的位置上读；它不在链接里。",
    "It is read after the query on the left, where the title stands; no link holds it.",
)
RULE = Text("怎样读", "Read by")
RULE_HELP = Text(
    "校准的读法：每个头看什么、阈值多少、哪一边算词尾，都在随附的 dev 上定。文章的规则：给 [SEP] 的权重大于"
    "给下一个字的，就是词尾。",
    "Calibrated: what is looked at, the threshold and the side are set for each head on the dev pairs "
    "that ship. The article's rule: a word ends where [SEP] weighs more than the next character.",
)
WHO = Text("哪些头", "Heads")
SETS = ("boundary_vote", "boundary")
"""Sets of a study that the page offers."""
BEST, OWN = "best", "own"
MAY = Text(f"注意力头（至多 {MOST_HEADS} 个）", f"Heads ({MOST_HEADS} at most)")
BESIDE = Text("与微调前并列", "Beside the model before fine-tuning")
CREDIT = Text(
    "文章把断词的本领归于预训练：若如此，微调前的同一个头应当也会。",
    "The article credits pretraining: then the same head should know before fine-tuning, too.",
)
WORKING = Text(
    "正在读取注意力（首次要校准各头的读法）…", "Reading attention (first calibrating heads)…"
)
NOTHING = Text(
    "这里没有相邻且各成一个词元的汉字，没有可判断的地方。",
    "No two neighbours here are Chinese characters that are tokens of their own: nothing to decide.",
)
CUT = Text(
    "文本超出模型的长度，只显示读到的部分。",
    "The text is too long: what the model reads is shown.",
)
KNOWN = Text(
    "这段文本也在校准所用的文本里，因此不能检验校准的读法。",
    "This text is among those of the calibration, so it is no test of the calibrated readings.",
)
STILL = Text(
    "去掉的头不在这些头之下，不可能改变它们的注意力。",
    "No head left out lies below these: it cannot change what they look at.",
)
TURNED = Text(
    "去掉左栏的头之后断法变了的头另有一行，变了的地方加框；没有第二行的，断法不变。",
    "A head that decides otherwise without the heads left out on the left has a second line, the "
    "changes outlined; one without it decides as before.",
)

_NAMES: Mapping[str, Text] = {
    BEST: Text("校准时最准的头", "best on calibration"),
    OWN: Text("自选", "of your own"),
}


def who_name(name: str, stability: Mapping[str, Stability] | None = None) -> Text:
    """What a choice of heads is called: one of `SETS`, `BEST` or `OWN`."""
    return _NAMES[name] if name in _NAMES else set_label(name, stability or {})


def notes(found: Words) -> Iterator[Text]:
    """What the readings rest on, and what keeps them from saying more."""
    n, basis = len(found.decisions), found.calibration
    yield (
        NOTHING
        if not n
        else Text(
            f"{n} 个判断（相邻的汉字）。读法在随附的 dev 上校准：{basis.pairs} 对，{basis.decisions:,} 个判断。",
            f"{n} decisions (neighbouring Chinese characters). Readings are calibrated on the dev pairs "
            f"that ship: {basis.pairs} pairs, {basis.decisions:,} decisions.",
        )
    )
    if found.cut:
        yield CUT
    if found.known:
        yield KNOWN
    if found.after is not None:
        yield TURNED if found.moved else STILL
