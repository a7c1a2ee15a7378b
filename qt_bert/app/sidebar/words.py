"""What the sidebar says."""

from __future__ import annotations

from qt_bert.results.text import Text

LANGUAGE = Text("语言", "Language")
MODEL = Text("模型", "Model")
MODEL_HELP = Text(
    "服务器启动时给出的文件夹里的模型，和自带的模型。",
    "Models of the folder that the server was started with, and those that ship.",
)
QUERY, TITLE = Text("查询", "Query"), Text("标题", "Title")
OTHER_PAIR = Text("换一对：案例、数据、文件", "Another pair: cases, data, a file")
SOURCE = Text("从哪里选", "From where")
CASES, ROWS, UPLOAD = (
    Text("案例", "Cases"),
    Text("自带数据", "Shipped data"),
    Text("文件", "A file"),
)
CHOOSE = Text("选一对…", "Choose a pair…")
SPLIT = Text("哪一部分", "Which part")
SPLITS = {"test": Text("测试集", "Test split"), "dev": Text("开发集", "Dev split")}
FILE = Text("句对文件，最大 10 MB", "A file of pairs, at most 10 MB")
FILE_HELP = Text(
    "TSV、CSV 或 JSON Lines，有 query 和 title 两列。文件不会保存，别人也看不到。",
    "TSV, CSV or JSON Lines with the columns query and title. It is not kept, and nobody else sees it.",
)
FILE_NO_LINK = Text(
    "选中的一对会写进链接；文件本身不在链接里。",
    "The chosen pair goes into the link; the file itself does not.",
)
READ = Text(
    "读到 {total:,} 对，可选前 {offered:,} 对。",
    "{total:,} pairs read, the first {offered:,} offered.",
)
REJECTED = Text("{n:,} 行不是句对：", "{n:,} rows are no pairs: ")
REJECT = Text("第 {line} 行{reason}", "line {line} {reason}")
OUT = Text("去掉的注意力头", "Heads left out")
SET = Text("现成的一组", "A set found by the probes")
NO_HEADS = Text("一个也不去掉", "none")
OWN_HEADS = Text("自选", "own choice")
SIZED = Text("{name}（{n}）", "{name} ({n})")
TYPED = Text("自己写（从 0 数起）", "Typed (counted from 0)")
GRID = Text("在网格上点选", "Click on the grid")
GRID_HELP = Text("点一格去掉或放回一个头。", "A click leaves a head out or puts it back.")
CLEAR = Text("全部放回", "Put all back")
MODE = Text("代之以", "Replaced by")
MODE_HELP = Text(
    "零：不给任何东西。均匀：对所有词元的平均。均值：这个头在自带开发集上的平均输出。",
    "Zero: it gives nothing. Uniform: the even average over all tokens. Mean: its own average over the "
    "dev split that ships.",
)
MODES = {
    "zero": Text("零", "zero"),
    "uniform": Text("均匀", "uniform"),
    "mean": Text("均值", "mean"),
}
VIEW = Text("看哪里", "What is looked at")
LAYER, HEAD, SEED = Text("层", "Layer"), Text("头", "Head"), Text("随机种子", "Seed")
SEED_HELP = Text(
    "随机抽取（随机的头、打乱、抽样）都由它决定。",
    "It decides every random draw: random heads, shuffles, samples.",
)
RESULTS = Text("探针结果：{origin}", "Probe results: {origin}")
NO_RESULTS = Text(
    "没有这个模型的探针结果；头图谱页可以现算。",
    "No probe results for this model; the head atlas can compute them.",
)
LEFT_OUT = Text("去掉", "left out")
