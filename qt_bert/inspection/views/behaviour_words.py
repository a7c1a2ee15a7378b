"""What the page on behaviours says."""

from __future__ import annotations

from qt_bert.inspection.views.phrases import AFTER, BEFORE
from qt_bert.probes.behaving.cases import ALIKE, BETTER, Relation
from qt_bert.probes.behaving.scores import RIGHT, UNDECIDED, WRONG
from qt_bert.probes.behaving.words import ALIKE_NAME, BETTER_NAME
from qt_bert.results import Text

TITLE = Text(
    "行为卡：模型分得清什么，又被什么带偏", "Behaviour card: what it tells, what misleads it"
)
INTRO = Text(
    "一个案例是一条查询和两个标题。“应当更好”：第一个标题明显更合查询，分数应当更高；“应当相同”：改动不该影响"
    "分数。相差不到容差的不算高低。在左栏选了要去掉的头，就看去掉之后哪些行为变了。",
    "A case is a query and two titles. Better: the first serves the query clearly better and should "
    "score higher; alike: the change should not move the score. Differences within the band count "
    "as none. With heads left out on the left, see which behaviours change.",
)
RELATIONS: dict[Relation, Text] = {BETTER: BETTER_NAME, ALIKE: ALIKE_NAME}
WAYS = (BEFORE, AFTER)
OUTCOMES: dict[int, Text] = {
    RIGHT: Text("对", "right"),
    UNDECIDED: Text("未定", "undecided"),
    WRONG: Text("错", "wrong"),
}

STORED = Text("研究里的行为卡", "The card of the study")
NONE_STORED = Text(
    "这个模型的研究里还没有行为卡；可以在这里用自带的案例现算。",
    "No study of this model has a card yet; it can be made here from the cases that ship.",
)
HERE = Text("在这里判全部案例", "All cases, judged here")
JUDGE = Text("判全部案例", "Judge all cases")
JUDGE_WITHOUT = Text("去掉所选的头，再判全部案例", "Judge all cases without the chosen heads")
STOPPED = Text("已停止，没有结果。", "Stopped; there is no result.")
PAIRS = Text("对", "pairs")
NUMBERS = Text("全部数字", "All numbers")
CASES = Text("案例，判得最差的在前", "The cases, worst first")
PHENOMENON = Text("现象", "Phenomenon")
CLICK = Text("点一行，看那个案例。", "Click a row to look at the case.")
OPEN_TITLE = Text("在首页看第一个标题", "The first title on the front page")
OPEN_OTHER = Text("在首页看第二个标题", "The second title on the front page")

OWN = Text("换成你自己的标题", "Two titles of your own")
OWN_ABOUT = Text(
    "查询和第一个标题在左栏，第二个写在这里。",
    "The query and the first title stand on the left; type the second here.",
)
OTHER = Text("第二个标题", "Second title")
RELATION = Text("第一个标题与第二个相比", "The first title, beside the second, is")
SWAP = Text("两个标题对调", "Swap the titles")
ADD = Text("加入我的案例", "Add to my cases")
DELTA = Text("第一个标题的分减第二个的", "the first title's score less the second's")
SAME = Text(
    "两个标题相同或有一个为空，没有可比的。",
    "The titles are the same, or one is empty: there is nothing to compare.",
)
NOT_IN_LINK = Text(
    "第二个标题和你的案例不在链接里，只在本次会话里。",
    "The second title and your cases are in no link: this session alone holds them.",
)
KNOWN = Text("这个案例已经在里面了。", "This case is among them already.")
MY_CASES = Text("我的案例", "My cases")
REMOVE = Text("删去选中的一行", "Remove the row chosen")
CLEAR = Text("全部删去", "Remove all")
SAVE_CASES = Text("保存为案例文件（TSV）", "Save as a file of cases (TSV)")
COMMAND = Text(
    "用这份文件跑完整的探针，逐层看哪些头承载哪种行为：",
    "The whole probe on this file, with the layers that carry each behaviour:",
)
ONE_HALF = Text(
    "命令要把查询分成两半，一半选头，一半检验；现在的查询都在同一半里，再加一条别的查询的案例。",
    "The command parts queries into two halves, to choose heads on one and test on the other; all of "
    "these fall into one half: add a case of another query.",
)

LINE_COLUMNS: dict[str, Text] = {
    "phenomenon": PHENOMENON,
    "relation": Text("预期", "expected"),
    "n": Text("案例", "cases"),
    "right": OUTCOMES[RIGHT],
    "undecided": OUTCOMES[UNDECIDED],
    "wrong": OUTCOMES[WRONG],
    "score": Text("得分", "score"),
    "interval": Text("95% 区间", "95 % interval"),
    "delta": Text("平均差", "mean difference"),
    "without": Text("得分，去掉头", "score, heads left out"),
    "change": Text("得分变化", "change of the score"),
    "change_interval": Text("变化的 95% 区间", "its 95 % interval"),
}
STORED_COLUMNS: dict[str, Text] = {
    "phenomenon": PHENOMENON,
    "score": LINE_COLUMNS["score"],
    "interval": LINE_COLUMNS["interval"],
    "q": Text("q", "q"),
    "concluded": Text("结论", "conclusion"),
}


def case_columns(score: Text) -> dict[str, Text]:
    """The columns of a table of cases; `score` is what titles are ranked by."""
    return {
        "id": Text("编号", "id"),
        "outcome": Text("判得", "outcome"),
        "delta": Text("差", "difference"),
        "outcome_without": Text("判得，去掉头", "outcome, heads left out"),
        "delta_without": Text("差，去掉头", "difference, heads left out"),
        "query": Text("查询", "query"),
        "title": Text("第一个标题", "first title"),
        "other": Text("第二个标题", "second title"),
        "first": Text(f"{score.zh}，第一个", f"{score.en}, first"),
        "second": Text(f"{score.zh}，第二个", f"{score.en}, second"),
    }


def difference(way: Text) -> Text:
    """How far the titles part, by one way to run the model."""
    return Text(f"差，{way.zh}", f"difference, {way.en}")


def band(said: Text) -> Text:
    """How large a difference counts as none."""
    return Text(f"容差：{said.zh}", f"Band: {said.en}")


def rests_on(cases: int, queries: int, band: Text, digest: str) -> Text:
    """What the figures rest on, and how sure they are."""
    return Text(
        f"全部 {cases:,} 个案例、{queries:,} 条查询，容差 {band.zh}，案例文本的 SHA-256 以 {digest} 开头。"
        "线段是按查询重抽的 95% 区间；这里不做检验。",
        f"All {cases:,} cases of {queries:,} queries, band {band.en}; SHA-256 of their texts begins "
        f"with {digest}. Whiskers: 95 % intervals over queries; nothing is tested here.",
    )


def judging(pairs: int) -> Text:
    """What the button sets off."""
    return Text(
        f"要给 {pairs:,} 对打分，可以随时停止。", f"{pairs:,} pairs to score; it can be stopped."
    )


def full(most: int) -> Text:
    """No further case is taken."""
    return Text(f"至多 {most} 个案例。", f"{most} cases at most.")
