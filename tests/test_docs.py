"""README and guide: links work, and the Chinese texts match the English ones."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from qt_bert.cli.register import app

ROOT = Path(__file__).parent.parent
TWINS = [(f"{name}.md", f"{name}.zh-CN.md") for name in ("README", "docs/guide", "docs/articles")]
PAGES = sorted(
    path
    for folder in (".", "docs", "benchmarks", "experiments")
    for path in (ROOT / folder).glob("*.md")
)


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def commands(text: str) -> list[str]:
    """Lines of code, without comments."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.S)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def headings(text: str) -> list[int]:
    """The level of each heading, in order."""
    outside = re.sub(r"```.*?```", "", text, flags=re.S)
    return [len(result) for result in re.findall(r"^(#+) ", outside, re.M)]


def links(text: str) -> list[str]:
    return [result.replace(".zh-CN.md", ".md") for result in re.findall(r"\]\(([^)#]+)", text)]


def numbers(text: str) -> list[str]:
    """Figures of tables and sentences; those of code are in `commands`."""
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.S)
    return sorted(re.findall(r"\d+(?:[.,]\d+)*|(?<!\d)\.\d+", prose))


@pytest.mark.parametrize(("english", "chinese"), TWINS)
@pytest.mark.parametrize("part", [commands, headings, links, numbers])
def test_the_chinese_text_follows_the_english_one(english, chinese, part):
    ours, theirs = part(text_of(english)), part(text_of(chinese))
    if part is links:  # each names the other in its first lines
        ours, theirs = ours[1:], theirs[1:]
    assert theirs == ours


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page):
    missing = [
        link
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
        if not link.startswith("http") and not (page.parent / link).exists()
    ]
    assert not missing


@pytest.mark.parametrize("name", ["README.md", "docs/guide.md"])
def test_every_command_that_is_shown_exists(name):
    known = typer.main.get_command(app)
    for line in commands(text_of(name)):
        if not line.startswith("qt-bert "):
            continue
        _, command, *rest = line.split()
        there = known.get_command(None, command)
        assert there is not None, line
        options = {one for parameter in there.params for one in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options, line


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does; the value of its last line."""
    body = ast.parse(source).body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(last, "cell", "eval"), names)


@pytest.mark.slow
def test_the_notebook_runs():
    cells = json.loads(text_of("docs/python.ipynb"))["cells"]
    names: dict[str, Any] = {}
    shown = [run_cell("".join(one["source"]), names) for one in cells if one["cell_type"] == "code"]
    graded, scored, matching, plotted, fall, effects, claims, heads = shown
    assert graded.grade in "12345" and len(scored) == 2
    assert matching[0] in str(plotted.to_dict())
    assert fall > 0 > effects["absolute"].iloc[-1]
    assert claims["id"].tolist() == ["boundary.beyond_characters"] and len(heads) == 5
    assert "<iframe" in names["found"]._repr_html_()
