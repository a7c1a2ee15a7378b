"""What the server was started with, and the pages there are."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from qt_bert.text import Text

# What the server was started with. It travels by environment, so that `streamlit run` takes it too.


Language = Literal["zh", "en"]

_PREFIX = "QT_BERT_APP_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where models and results come from, and the language a visitor meets first.

    `models` is a checkpoint or a folder of checkpoints (None: what ships), `run` a run folder whose
    results are shown where they are of the model's weights, `base` the name or folder of the model
    before fine-tuning.
    """

    models: Path | None = None
    run: Path | None = None
    base: str | None = None
    language: Language = "zh"

    def to_environment(self) -> dict[str, str]:
        """`QT_BERT_APP_MODELS` and so on, as far as they are set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {f"{_PREFIX}{name.upper()}": str(value) for name, value in values.items() if value}

    @classmethod
    def read(cls) -> Settings:
        """The settings of this process; an unknown language is Chinese."""
        given = {
            field.name: os.environ.get(f"{_PREFIX}{field.name.upper()}") for field in fields(cls)
        }
        return cls(
            models=Path(given["models"]) if given["models"] else None,
            run=Path(given["run"]) if given["run"] else None,
            base=given["base"] or None,
            language="en" if given["language"] == "en" else "zh",
        )


# The pages there are: their names, their titles, and where their scripts lie.
#
# Their folder is not called `pages`: beside a script, Streamlit takes a folder of that name for its
# older kind of navigation, and would show a page without the frame.


FOLDER = "screens"
"""Beside the entry's script: one file a page."""

SCREENS = {
    "focus": (Text("[CLS] 注意力", "CLS focus"), ":material/center_focus_strong:"),
    "attention": (Text("注意力图", "Attention"), ":material/grid_on:"),
    "atlas": (Text("头图谱", "Atlas"), ":material/map:"),
    "words": (Text("分词", "Words"), ":material/text_fields:"),
    "order": (Text("语序", "Order"), ":material/swap_horiz:"),
    "ranking": (Text("排序", "Ranking"), ":material/format_list_numbered:"),
    "behaviour": (Text("行为卡", "Behaviour"), ":material/rule:"),
    "evaluate": (Text("评测", "Evaluate"), ":material/fact_check:"),
}
"""The pages by file name, in the order of the navigation; the first is the front page."""


def script_of(name: str) -> str:
    """The script of a page, from the entry's folder."""
    return f"{FOLDER}/{name}.py"
