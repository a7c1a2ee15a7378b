"""The inspection page run by Streamlit's own test runner, on a tiny model.

`app()` starts a visit; `app("attention")` opens that page; `app(q="…", t="…", out="L0H1")` follows a
link. The model has two layers of two heads, and is called `tiny`; `--models` of one's own by
`monkeypatch.setenv("QT_BERT_APP_MODELS", …)` before the first call.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from qt_bert.page.model import ModelPool, SharedModel
from qt_bert.page.state import State
from tests.page.conftest import models, pool  # noqa: F401 (fixtures)

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "apps" / "inspection.py"
SECONDS = 60

STATE = State(
    model="m",
    query="北京到上海高铁",
    title="北京高铁票多少钱",
    layer=2,
    head=1,
    out=(),
    mode="zero",
    seed=0,
    language="zh",
)
Visit = Callable[..., AppTest]
Build = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny_models(
    checkpoint_of: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder that holds the checkpoint `tiny`: 2 layers of 2 heads, 128 positions, five grades."""
    folder = tmp_path_factory.mktemp("shelf")
    shutil.copytree(checkpoint_of(positions=128), folder / "tiny")
    return folder


@pytest.fixture
def app(tiny_models: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """`app(page="focus", **link)`: the page after its first run, with the address `link`."""
    if "QT_BERT_APP_MODELS" not in os.environ:
        monkeypatch.setenv("QT_BERT_APP_MODELS", str(tiny_models))

    def visit(page: str | None = None, **link: str) -> AppTest:
        at = AppTest.from_file(ENTRY, default_timeout=SECONDS)
        at.query_params.update(link)
        at.run()
        if page is not None:
            at.switch_page(f"screens/{page}.py").run()
        return at

    yield visit


def opened(folder: Path) -> SharedModel:
    """The model of a checkpoint folder."""
    alone = ModelPool(folder)
    return alone.open(alone.names[0])


def counted(model: SharedModel, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls of `model.run` from now on."""
    calls: list[object] = []
    run = model.run
    monkeypatch.setattr(model, "run", lambda *given: calls.append(given) or run(*given))
    return calls


def until(at: AppTest, there: Callable[[], object]) -> AppTest:
    """Run the page again until `there` is true, as it does by itself during a job."""
    end = time.monotonic() + SECONDS
    while not there():
        assert time.monotonic() < end and not at.exception, shown(at)
        time.sleep(0.1)
        at.run()
    return at


def shown(at: AppTest) -> str:
    """All texts on the page: headings, markdown, captions, errors, metrics."""
    kinds = ("title", "header", "subheader", "markdown", "caption", "text", "info", "warning")
    texts = [element.value for kind in (*kinds, "error", "success") for element in at.get(kind)]
    return "\n".join(map(str, [*texts, *(f"{m.label} {m.value}" for m in at.metric)]))


def plain(at: AppTest) -> str:
    """The same without the escapes of markdown."""
    return shown(at).replace("\\", "")
