"""The settings of the page's server. They travel by environment, so that `streamlit run` reads them too."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

Language = Literal["zh", "en"]

_PREFIX = "QT_BERT_APP_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where models and results come from, and the language a visitor meets first.

    `models` are checkpoints or folders of checkpoints (none: what ships), `run` a run folder whose
    results are shown where they are of the model's weights, `base` the folder of the model before
    fine-tuning, `device` where the models run.
    """

    models: tuple[Path, ...] = ()
    run: Path | None = None
    base: Path | None = None
    device: str = "auto"
    language: Language = "zh"

    def to_environment(self) -> dict[str, str]:
        """`QT_BERT_APP_MODELS` and so on, as far as they are set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["models"] = "\n".join(map(str, self.models))
        return {f"{_PREFIX}{name.upper()}": str(value) for name, value in values.items() if value}

    @classmethod
    def read(cls) -> Settings:
        """The settings of this process; an unknown language is Chinese."""
        given = {
            field.name: os.environ.get(f"{_PREFIX}{field.name.upper()}") for field in fields(cls)
        }
        return cls(
            models=tuple(map(Path, (given["models"] or "").splitlines())),
            run=Path(given["run"]) if given["run"] else None,
            base=Path(given["base"]) if given["base"] else None,
            device=given["device"] or "auto",
            language="en" if given["language"] == "en" else "zh",
        )
