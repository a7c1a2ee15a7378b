"""The page Evaluate: uploads good and bad, the work in the background, a stop, clicks."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from qt_bert.app import widgets

Visit = Callable[..., AppTest]
GOOD = (
    "query\ttitle\tgrade\n"
    "怎么去除衣服上的油渍\t衣服沾了油怎么洗掉\t5\n"
    "怎么去除衣服上的油渍\t红烧排骨的家常做法\t1\n"
    "苹果多少钱一斤\t苹果手机多少钱\t2\n"
    "苹果多少钱一斤\t苹果一斤多少钱\t5\n"
    "坏行\n"
).encode()
SECONDS = 30.0


def upload(at: AppTest, data: bytes, name: str = "a.tsv") -> AppTest:
    at.main.radio(key="evaluate.source").set_value("upload").run()
    at.main.get("file_uploader")[0].set_value((name, data, "text/plain")).run()
    return at


def evaluated(at: AppTest) -> AppTest:
    at.button(key="evaluate.go").click().run()
    end = time.monotonic() + SECONDS
    while not at.main.metric:
        assert time.monotonic() < end and not at.exception, "no figures"
        time.sleep(0.1)
        at.run()
    return at


def tables(at: AppTest) -> list[set[str]]:
    return [set(frame.value.columns) for frame in at.main.dataframe]


def errors(at: AppTest) -> str:
    return "\n".join(error.value for error in at.main.error)


def test_an_upload_is_evaluated(app: Visit) -> None:
    at = upload(app("evaluate", lang="en", out="none"), GOOD)
    assert not at.exception and not errors(at)
    assert any(
        "All 4 pairs (2 queries)" in text.value.replace("\\", "") for text in at.main.markdown
    )
    assert any("1 rows rejected" in one.label for one in at.main.expander)
    command = at.main.code[0].value
    assert command.startswith("qt-bert evaluate") and "--pairs a.tsv" in command
    evaluated(at)
    labels = [metric.label for metric in at.main.metric]
    assert labels[0] == "accuracy"
    assert any({"precision", "recall", "f1"} <= columns for columns in tables(at))
    assert not any("p" in columns for columns in tables(at))


def test_heads_out_are_compared(app: Visit) -> None:
    at = evaluated(upload(app("evaluate", out="L0H1 L1H0", lang="en"), GOOD))
    assert any({"plain", "without", "difference", "p"} <= columns for columns in tables(at))
    assert len(at.main.code) == 2 and "--heads-out 'L0H1 L1H0'" in at.main.code[1].value
    at.sidebar.text_input(key="side-query").set_value("狗追猫").run()
    assert at.main.metric and not any("changed" in w.value for w in at.main.warning)


def test_columns_and_grades(app: Visit) -> None:
    data = "q\tt\tlab\n甲\t一\ta\n甲\t二\tb\n".encode()
    at = upload(app("evaluate", lang="en"), data)
    assert "no column 'query'" in errors(at).replace("\\", "")
    at.text_input(key="evaluate.columns").set_value("query=q,title=t,grade=lab").run()
    assert "--grades" in errors(at).replace("\\", "")
    at.text_input(key="evaluate.grades").set_value("a=1-2,b=5").run()
    assert not errors(at)
    evaluated(at)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"PK\x03\x04zip", "a.tsv"),
        (b"\x00" * 999, "a.tsv"),
        (b"", "a.tsv"),
        (b"x" * 2**20, "a.csv"),
    ],
)
def test_a_bad_file_gets_a_plain_word(app: Visit, data: bytes, name: str) -> None:
    at = upload(app("evaluate"), data, name)
    assert not at.exception
    assert len(at.main.error) == 1 and "Traceback" not in errors(at) and "/tmp" not in errors(at)
    assert not [button for button in at.main.button if button.key == "evaluate.go"]


def test_an_upload_survives_a_change_of_page_and_can_be_removed(app: Visit) -> None:
    at = evaluated(upload(app("evaluate", lang="en"), GOOD))
    at.switch_page("screens/order.py").run()
    at.switch_page("screens/evaluate.py").run()
    assert not at.exception and at.main.metric
    assert any("Still using a" in caption.value for caption in at.main.caption)
    (remove,) = [button for button in at.main.button if "Remove" in button.label]
    remove.click().run()
    assert not [button for button in at.main.button if button.key == "evaluate.go"]


def test_a_stop_is_said(app: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    from qt_bert.inspection import inspected

    def slow(scorer: Any, texts: Any, job: Any, shown: Any) -> None:
        while True:
            with job.slice():
                time.sleep(0.01)

    monkeypatch.setattr("qt_bert.inspection.views.evaluation.sliced_logits", slow)
    assert inspected.sliced_logits is not slow
    at = app("evaluate", lang="en")
    at.button(key="evaluate.go").click().run()
    at.button(key="evaluate-stop").click().run()
    end = time.monotonic() + SECONDS
    while not any("Stopped" in info.value for info in at.main.info):
        assert time.monotonic() < end and not at.exception
        time.sleep(0.1)
        at.run()
    assert not at.button(key="evaluate.go").disabled


def test_words_of_a_job() -> None:
    from qt_bert.inspection.turns import JobState
    from qt_bert.text import Text

    standing = JobState(place=0, done=30, total=120, rate=10.0, left=9.0, note="a", finished=False)
    unit, steps = Text("对", "pairs"), {"a": Text("打分", "scoring")}
    assert widgets.words_of(standing, unit, steps) == "打分 · 30 / 120 对 · 10 对/秒 · 约剩 9 秒"


def test_a_model_of_one_logit(
    app: Visit, checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(checkpoint_of(labels=1)))
    at = evaluated(upload(app("evaluate", out="L0H0", lang="en"), GOOD))
    assert not at.exception
    labels = [metric.label.replace("\\", "") for metric in at.main.metric]
    assert labels == ["Spearman's rho", "NDCG@5"]
