"""What the page Ranking says."""

from __future__ import annotations

from qt_bert.evaluation import METRICS
from qt_bert.results import Text
from qt_bert.scoring.explain import LEAST_TELLING

TITLE = Text("排序：同一查询下的多条标题", "Ranking: several titles under one query")
INTRO = Text(
    "同一查询下的标题按期望等级排序；去掉左栏所选的头之后再排一次。点一条标题，看哪些词、哪些头左右它。",
    "Titles of one query, ranked by their expected grade, and once more without the heads chosen on "
    "the left. Click a title to see which terms and which heads move it.",
)
QUERY = Text("查询：{query}", "Query: {query}")
TITLES = Text("标题，每行一条", "Titles, one a line")
TITLES_HELP = Text(
    "至多 50 条。行尾可加制表符（Tab）和标注，例如从表格粘贴两列；有标注就算 NDCG。",
    "50 at most. A label may follow after a tab, as two columns pasted from a spreadsheet have it; "
    "with labels there is NDCG.",
)
NOT_IN_LINK = Text(
    "这些标题是你自己的，不在链接里：别人打开链接看到的是默认的标题。",
    "These titles are your own and no link holds them: others see the default ones.",
)
SHIPPED = Text("取随包测试集的一个查询", "A query of the test set that ships")
UPLOAD = Text(
    "也可以在左栏“换一对”里上传文件，再在这里选它的查询。",
    "Or upload a file on the left, and choose one of its queries here.",
)
OF_FILE = Text("文件里的查询", "A query of the file")
NOTHING_IN_FILE = Text(
    "文件里没有一个查询有两条不同的标题。", "No query of the file has two different titles."
)
MORE_WAYS = Text("换一个查询和它的标题", "Another query with its titles")
NO_TITLES = Text("请输入至少一条标题。", "Type at least one title.")
NO_HEADS = Text(
    "左栏没有选中要去掉的头，只显示完整模型的排序。",
    "No heads are left out on the left: this is the whole model's ranking alone.",
)
MOVED = Text("名次变了的标题", "titles that move")
MOVED_HELP = Text(
    "去掉所选的头之后名次不同的标题 / 全部标题。同分的标题名次相同。",
    "Titles whose place differs without the heads, of all titles. Equal scores share a place.",
)
TAU = Text("Kendall τ（两种排序之间）", "Kendall's τ between both orders")
TAU_HELP = Text(
    "τ-b：1 为顺序完全相同，−1 为完全相反；无：分数全相同。",
    "τ-b: 1 the same order, −1 the reverse; none where all scores are equal.",
)
CLICK = Text(
    "点一行，下面就分析那条标题（默认是左栏的标题）。",
    "Click a row: what is below then looks at that title (at first the one on the left).",
)
MOVERS = Text("什么左右这条标题", "What moves this title")
OPEN = Text("在首页看这一对", "Look at this pair on the front page")
NO_SHARES = Text(
    "每个头单独去掉（以 0 代替），对完整模型而言。这是缺了它的影响，不是可以相加的份额：头可以互相替代。",
    "Each head is left out alone, of the whole model, replaced by 0. These are effects of its absence, "
    "not shares that add up: heads stand in for each other.",
)
CARRIERS = Text("再看哪些头带着最要紧的词", "Also show which heads carry the most telling term")
CARRIERS_HELP = Text(
    "把最要紧的词换掉，再把原来这一对里各个头的输出逐个换回去，看补回多少；要算几秒。",
    "The most telling term is filled; then each head's output of the pair as it is is put back, one at "
    "a time, to see how much of the change comes back. It takes seconds.",
)
NO_CARRIERS = Text(
    f"没有一个词换掉后使分数变化 {LEAST_TELLING} 以上，所以不问是哪些头带着它。",
    f"No term changes the score by {LEAST_TELLING} or more, so that there is nothing for a head to "
    "carry.",
)
CARRIED = Text(
    "对完整模型而言；全部头一起换回为 100%。份额不能相加：头与头互相读取。只看这一对，没有区间。",
    "Of the whole model; all heads put back together give 100 %. Shares do not add up: heads read each "
    "other. One pair, no interval.",
)


def columns(score: Text) -> dict[str, Text]:
    """The columns of the ranking's table."""
    return {
        "place": Text("名次", "place"),
        "moved": Text("去掉头后", "without heads"),
        "title": Text("标题", "title"),
        "label": Text("标注", "label"),
        "predicted": Text("预测", "predicted"),
        "score": score,
        "without": Text(f"{score.zh}，去掉头", f"{score.en}, heads left out"),
        "change": Text("变化", "change"),
    }


def ndcg_help(name: str, labelled: int) -> Text:
    """What NDCG is, and what it rests on."""
    about = METRICS[name].description
    return Text(
        f"{about.zh}在 {labelled} 条有标注的标题上；小字是去掉头后的变化。",
        f"{about.en} Over the {labelled} titles with labels; below, the change without the heads.",
    )


def passed_over(count: int, most: int) -> Text:
    """Terms that were not filled."""
    return Text(
        f"只逐个换掉了前 {most} 个词，还有 {count} 个没有算。",
        f"The first {most} terms were filled one by one; {count} more were not.",
    )


def chosen_head(layer: int, head: int) -> Text:
    """The head that a click on the map chose."""
    return Text(
        f"点图上一格即选中那个头，各页都用它；现在是 L{layer}H{head}。",
        f"A click on the map chooses a head for all pages; now it is L{layer}H{head}.",
    )
