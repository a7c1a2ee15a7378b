"""What the articles say beside our figures: `docs/articles.md` and its Chinese twin, from a run of `report`.

python -m experiments.article.make runs/full --out docs
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mode
from typing import Any, Literal

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write, read_json
from qt_bert.probes.texts import COMMON, texts_of, unit
from qt_bert.report.frontier import TITLE
from qt_bert.text import Text, in_language, interval, number

ROWS = Path(__file__).with_name("rows.toml")
FILES = {"en": "articles.md", "zh": "articles.zh-CN.md"}
Language = Literal["en", "zh"]

WORDS: dict[str, dict[Language, str]] = {
    "title": {
        "en": "What the articles say, and what is measured here",
        "zh": "文章怎么说，这里测得多少",
    },
    "columns": {
        "en": "the article says | its figure, or sign | ours [95 % interval] | section of the report",
        "zh": "文章说 | 文章的数或方向 | 我们的 [95 % 区间] | 报告的章节",
    },
    "made": {
        "en": "[中文](articles.zh-CN.md). Of `{model}` on {pairs}, mostly {queries} queries, by a {profile} report; made by "
        "`python -m experiments.article.make RUN`. Points lost are hundredths of the label's probability; a "
        "sign alone (> 0) is the article's direction; behind a verdict stands its margin. *Beside other models*: the earlier "
        "7 M model "
        "([data](../data/baselines/README.md)). The named examples are in `qt-bert app`, which opens with 紫熨斗. "
        "Verdicts: [claims.md](claims.md).",
        "zh": "[English](articles.md)。模型 `{model}`，{pairs}，多为 {queries} 个查询，{profile}报告；由 "
        "`python -m experiments.article.make RUN` 生成。“百分点”指标注等级的概率下降了多少；只写“> 0”的，是文章所说的"
        "方向；判定后的括号里是界限。“与其他做法相比”是先前的 7 M 模型（[数据](../data/baselines/README.md)）。文章的例子都在 `qt-bert app` 里，"
        "打开就是“紫熨斗”。判定见 [claims.md](claims.md)。",
    },
    "quick": {"en": "quick", "zh": "快速"},
    "full": {"en": "full", "zh": "完整"},
    "not_run": {"en": "in a full report", "zh": "见完整报告"},
    "unknown": {"en": "not testable here", "zh": "此处无法检验"},
}


def make(run: Path, out: Path) -> None:
    """Write both files in the folder `out`. Raises ArgumentError for a folder without a finished report."""
    if not (run / "report.json").is_file():
        raise ArgumentError(
            f"{run}: no report.json; give the folder of a finished `qt-bert report`"
        )
    stored, figures = read_json(run / "report.json"), dict[str, Mapping[str, Any]]()
    sections = {"plan": TITLE}
    for path in sorted((run / "probes").glob("*.json")):
        probe = read_json(path)
        sections[probe["probe"]] = Text(**probe["title"])
        figures |= {f"{probe['probe']}/{each['id']}": each for each in probe["measurements"]}
    figures |= {claim["id"]: claim for claim in stored["claims"]}
    counts = [claim["n_queries"] for claim in stored["claims"] if claim["n_queries"]]
    if not counts:
        raise ArgumentError(
            f"{run}: no claim of this report counts queries; give a report with its probes"
        )
    inputs = stored["run"]["inputs"]
    facts = {
        "model": inputs["model"]["name"],
        "pairs": inputs["pairs"]["name"],
        "queries": mode(counts),
    }
    profile = "full" if inputs["arguments"].get("full") else "quick"
    articles = tomllib.loads(ROWS.read_text(encoding="utf-8"))["articles"]
    languages: tuple[Language, ...] = ("en", "zh")
    for language in languages:
        said = {name: words[language] for name, words in WORDS.items()}
        lines = [f"# {said['title']}", "", said["made"].format(**facts, profile=said[profile])]
        for article in articles:
            lines += ["", f"## {article[language]}", "", said["columns"], "---|---|---|---"]
            lines += [_row(row, figures, sections, profile, language) for row in article["rows"]]
        with atomic_write(out / FILES[language]) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _row(
    row: Mapping[str, Any],
    figures: Mapping[str, Mapping[str, Any]],
    sections: Mapping[str, Text],
    profile: str,
    language: Language,
) -> str:
    source = row.get("source", "–")
    cells = [row[language], source if isinstance(source, str) else source[language]]
    if "none" in row:
        return " | ".join([*cells, row["none"][language], "–"])
    absent = WORDS["not_run" if profile == "quick" else "unknown"][language]
    known = [figures.get(name) for name in row["ids"]]
    if row.get("full") and profile == "quick":
        known = [None]
    units = [
        None if figure is None or figure["value"] is None else figure.get("unit")
        for figure in known
    ]
    ours = [
        absent if figure is None else written(figure, language, next_unit=following)
        for figure, following in zip(known, [*units[1:], None], strict=True)
    ]
    probe = row["ids"][0].partition("/")[0].partition(".")[0]
    section = in_language(sections.get(probe) or texts_of(probe).text("title"), language)
    return " | ".join([*cells, {"en": "; ", "zh": "；"}[language].join(ours), section])


def written(figure: Mapping[str, Any], language: Language, *, next_unit: str | None = None) -> str:
    """A value with its interval, its unit if what follows has another, and, of a claim, verdict and margin."""
    value, name = figure["value"], figure.get("unit") or ""
    verdict = figure.get("verdict")
    word = texts_of(COMMON).text(f"verdicts.{verdict}") if verdict else ""
    judged = f"**{in_language(word, language)}**" if verdict else ""
    scale, digits = (100, 0) if name in ("share", "f1") else (1, 3 if name == "rho" else 1)
    if verdict and (margin := figure["margin"]):
        side = {"above": ">", "below": "<"}[figure["side"]]
        judged += f" ({side} {margin * scale:g})".replace("-", "−")
    if value is None:
        return judged or WORDS["unknown"][language]
    if not name:
        digits = 2
    low, high = (
        None if figure[end] is None else figure[end] * scale for end in ("ci_low", "ci_high")
    )
    label = "" if not name or name == next_unit else "%" if scale == 100 else unit(name)
    shown = (number(float(value * scale), digits), interval(low, high, digits))
    return " ".join(filter(None, (*shown, in_language(label, language), judged)))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, help="folder of `qt-bert report`")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args(arguments)
    with one_line_faults():
        make(options.run, options.out)


if __name__ == "__main__":
    main()
