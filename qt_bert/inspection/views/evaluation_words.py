"""What the page Evaluate says."""

from __future__ import annotations

from qt_bert.evaluation.comparison import DRAWS
from qt_bert.evaluation.intervals import NO_RESAMPLES, ONE_QUERY, UNSTABLE
from qt_bert.evaluation.measurements import NO_ELIGIBLE
from qt_bert.evaluation.metrics.metric import REASONS
from qt_bert.inspection.views.evaluation import RESAMPLES
from qt_bert.inspection.views.graded_file import MOST_PAIRS, MOST_ROWS_READ, GradedFile
from qt_bert.results import Text

TITLE = Text("评测：一份带标注的文件", "Evaluate: a graded file")
INTRO = Text(
    f"模型给每一对打分，与标注比较；左栏选了要去掉的头，就再评一次并成对比较。这里最多 {MOST_PAIRS:,} 对。",
    "The model grades every pair, and its grades are set against the labels; with heads left out on "
    f"the left it does so twice and compares the two, pair by pair. At most {MOST_PAIRS:,} pairs here.",
)
SOURCE = Text("评测哪份文件", "Which file")
SOURCES = {
    "shipped": Text("随包测试集", "the test set that ships"),
    "upload": Text("上传文件", "an upload"),
}
FILE = Text("带标注的句对文件（不超过 10 MB）", "File of graded pairs (10 MB at most)")
FILE_HELP = Text(
    "每行一对：query、title、grade 三列（TSV、CSV 或 JSON Lines，UTF-8 或 GB18030）。文件只在本次会话的内存里，"
    "别人看不到。",
    "A pair a line with the columns query, title, grade (TSV, CSV or JSON Lines; UTF-8 or GB18030). "
    "The file stays in this session's memory, and nobody else sees it.",
)
HELD = Text("仍在使用 {name}。", "Still using {name}.")
FORGET = Text("移除这份文件", "Remove this file")
OPTIONS = Text("列名与标注的含义", "Columns, and what the labels mean")
COLUMNS = Text("列名（--columns）", "Columns (--columns)")
COLUMNS_HELP = Text(
    "我们的名字=文件里的列名；没有表头时写位置，从 1 数：query=1,title=2,grade=3",
    "our name=the file's column; without a header its position from 1: query=1,title=2,grade=3",
)
NO_HEADER = Text("第一行就是数据（--no-header）", "The first line is a pair (--no-header)")
GRADES = Text("标注的含义（--grades）", "What the labels mean (--grades)")
GRADES_HELP = Text(
    "标注=档位，或一段档位：0=1-2,1=3-4,2=5。不填：标注就是 1 到 5 档。",
    "label=grade, or a range of grades: 0=1-2,1=3-4,2=5. Left empty: the labels are grades 1–5.",
)
MAX_REJECTS = Text(
    "最多剔除百分之几的行（--max-rejects）", "Rows that may be rejects, % (--max-rejects)"
)
MAX_HELP = Text("10 行以内总是允许。", "Ten rows always may.")
EVALUATE = Text("评测", "Evaluate")
ALL_OF_IT = Text("完整文件的命令", "The command for the whole file")
COMPARED_BY = Text("成对比较的命令", "The command for the comparison")
PAIRS = Text("对", "pairs")
STOPPED = Text("已停止，没有结果。", "Stopped; there are no figures.")
CHANGED = Text(
    "设置已改变：下面是上一次的结果。再点“评测”重算。",
    "The settings have changed: below are the last figures. Evaluate again for new ones.",
)
METRICS_TAB, LEVELS_TAB = Text("指标", "Metrics"), Text("各档", "Levels")
HEADS_TAB, WORST_TAB = (
    Text("去掉头的影响", "Heads left out"),
    Text("偏差最大的对", "Pairs furthest off"),
)
HEADLINE = Text("方括号内：95% 区间。", "In brackets: 95 % intervals.")
HEADLINE_OUT = Text(
    "大字是完整模型；箭头旁是去掉所选的头之后的变化；方括号内是完整模型的 95% 区间。",
    "Large: the whole model. Beside the arrow: the change without the heads. In brackets: the whole "
    "model's 95 % interval.",
)
METRICS_NOTE = Text(
    f"区间：按查询自助重采样 {RESAMPLES:,} 次的 95% 区间。方向：↑ 越大越好，↓ 越小越好，→ 0 越接近 0 越好。",
    f"Intervals: 95 %, bootstrap over queries, {RESAMPLES:,} resamples. ↑ higher, ↓ lower, → 0 nearer to zero "
    "is better.",
)
DIFFERENCES_NOTE = Text(
    f"差 = 去掉头 − 完整模型，两者用同样的重采样；p：逐查询随机交换两者的预测 {DRAWS:,} 次，双侧，未对指标个数校正。",
    "Difference = heads left out − whole model, both under the same resamples; p: the two predictions "
    f"swapped at random query by query, {DRAWS:,} times, two-sided, not corrected for the number of metrics.",
)
NO_LEVELS = Text(
    "这个模型和这些标注没有共同的档位，所以没有混淆矩阵和各档的数。",
    "This model and these labels share no levels: no confusion matrix, no figures by level.",
)
CLICK = Text("点一行，就在首页查看这一对。", "Click a row to look at that pair on the front page.")
CHANGED_PAIRS = Text("去掉头后变化最大的对", "Pairs that the heads change most")


def sample(file: GradedFile) -> Text:
    """Which pairs are taken."""
    pairs, queries = f"{len(file.pairs):,}", f"{len({pair.query for pair in file.pairs}):,}"
    if file.whole:
        return Text(
            f"全部 {pairs} 对（{queries} 个查询）。", f"All {pairs} pairs ({queries} queries)."
        )
    of = f"{file.n_pairs:,}"
    more = f"{MOST_ROWS_READ:,}"
    return Text(
        f"按种子从{'前 ' + more if file.unread else ' ' + of} 对中抽取 {pairs} 对（{queries} 个查询，按整个查询抽）。"
        "整份文件请用下面的命令。",
        f"{pairs} pairs of {queries} queries, drawn by the seed as whole queries of "
        f"{'the first ' + more if file.unread else of} pairs. The command below takes the whole file.",
    )


def reason(english: str | None) -> Text | None:
    """Why a metric has no value or no interval, in both languages."""
    return None if english is None else Text(_REASONS.get(english, english), english)


_REASONS = {
    REASONS["overlapping"]: "标注的档位集合互相重叠，不成有序的级别",
    REASONS["score"]: "单 logit 模型只给出顺序，没有档位：看 pairwise accuracy、NDCG 和 Spearman",
    NO_ELIGIBLE: "没有一个查询的标题有两种档位",
    NO_RESAMPLES: "没有区间：未做重采样",
    ONE_QUERY: "没有区间：只有一个查询，无法重采样",
    UNSTABLE: "没有区间：超过 5% 的重采样里该指标无定义",
    "no pair to judge": "没有可评的对",
}
