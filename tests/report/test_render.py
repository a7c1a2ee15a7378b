import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.files import write_json
from qt_bert.report.render import render
from qt_bert.request import Request
from qt_bert.run.folder import RunFolder, Stage, StageContext, run_stages
from tests.report.conftest import INPUTS


class Page(HTMLParser):
    """Tags with their attributes, and the text, of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


@pytest.fixture
def page(run) -> Page:
    return Page(render(run))


def test_nothing_in_the_page_can_run_or_leads_outside(page):
    outside = {"script", "img", "iframe", "object", "link", "form"}
    assert outside.isdisjoint(tag for tag, _ in page.tags)
    named = [pair for _, attributes in page.tags for pair in attributes.items()]
    assert not [name for name, _ in named if name.startswith("on")]
    addresses = [value for name, value in named if name in ("href", "src", "xlink:href", "action")]
    assert addresses and all(value and value.startswith("#") for value in addresses)
    assert "://" not in page.source and "url(" not in page.source
    policies = [a for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert [policy["content"][:18] for policy in policies] == ["default-src 'none'"]


def test_texts_stay_texts_and_hold_what_a_page_can(page, hostile):
    assert all(text in page.text for text in (*hostile, "{{ 7*7 }}", "\ufffd\ufffd\ufffd"))
    assert not set("\x00\x1b\u202e") & set(page.source)


def test_a_complete_page_shows_figures_with_their_base_in_both_languages(page):
    shown = ("0.523 [0.489, 0.557]", "158/160 个查询可评", "混淆矩阵", "Confusion matrix")
    assert all(text in page.text for text in shown)
    assert sum(tag == "article" for tag, _ in page.tags) == 6
    assert "尚未完成" not in page.text
    switches = {a.get("id") for _, a in page.tags if a.get("type") == "radio"}
    labels = {attributes.get("for") for tag, attributes in page.tags if tag == "label"}
    assert switches == labels == {"language-zh", "language-en"}
    assert "@media screen and (prefers-color-scheme: dark)" in page.source
    assert "color-scheme: light" in page.source[page.source.index("@media print") :]


def test_drawing_is_quick_and_twice_gives_the_same_page(run):
    start = time.process_time()
    report = render(run)
    assert time.process_time() - start < 2
    first = report.read_bytes()
    assert len(first) < 1_000_000
    assert render(run).read_bytes() == first


def test_long_texts_do_not_swell_the_page(evaluation, build_run):
    for pair in evaluation["errors"] + evaluation["examples"]:
        pair["title"] = "长" * 100_000
    assert render(build_run(evaluation)).stat().st_size < 300_000


def interrupted(path: Path, evaluation: dict[str, Any] | None) -> Path:
    """A run whose stage after the evaluation never came to its end."""

    def write(context: StageContext) -> None:
        if evaluation is None:
            raise KeyboardInterrupt
        write_json(context.folder.file("evaluation.json"), evaluation)

    def stop(context: StageContext) -> None:
        raise KeyboardInterrupt

    outputs = ("evaluation.json",)
    stages = [
        Stage(name="evaluation", order=1, run=write, outputs=outputs, quick_seconds=15),
        Stage(name="redundancy", order=2, run=stop, outputs=("x.json",), quick_seconds=45),
    ]
    folder = RunFolder.open(path, INPUTS)
    with pytest.raises(KeyboardInterrupt):
        run_stages(stages, StageContext(folder=folder, request=Request()))
    return path


def test_an_interrupted_run_shows_what_it_has_and_names_the_rest(tmp_path, evaluation):
    page = Page(render(interrupted(tmp_path, evaluation)))
    assert "This run is not complete; missing: redundancy" in page.text
    assert "0.523" in page.text


def test_a_run_without_any_result_still_gives_a_page(tmp_path):
    page = Page(render(interrupted(tmp_path, None)))
    assert "evaluation, redundancy" in page.text
    assert ("a", {"href": "#evaluation"}) not in page.tags


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("evaluation.json", '{"schema": 1}', r"evaluation\.json: the key 'model' is missing"),
        ("probes/redundancy.json", "{", r"redundancy\.json"),
    ],
)
def test_a_damaged_result_is_named(run_of, result_of, name, content, words):
    run = run_of(result_of("redundancy", 10))
    (run / name).write_text(content, encoding="utf-8")
    with pytest.raises(RunFolderError, match=words):
        render(run)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="is no run folder"):
        render(tmp_path)
