"""The settings of the page's server, passed on by environment variables."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

Language = Literal["zh", "en"]

_PREFIX = "QT_BERT_APP_"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Where models and results come from, and the language of a first visit.

    `models` are checkpoints or folders of checkpoints (none: those that ship), `run` a run folder
    whose results are shown for the weights they are of, `base` the folder of the model before
    fine-tuning, `device` where the models run.
    """

    models: tuple[Path, ...] = ()
    run: Path | None = None
    base: Path | None = None
    device: str = "auto"
    language: Language = "zh"

    def to_environment(self) -> dict[str, str]:
        """The variables `QT_BERT_APP_MODELS` and so on; empty where unset, so that none is inherited."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["models"] = "\n".join(map(str, self.models))
        return {f"{_PREFIX}{name.upper()}": str(value or "") for name, value in values.items()}

    @classmethod
    def read(cls) -> Settings:
        """The settings of this process; an unknown language becomes Chinese."""
        values = {
            field.name: os.environ.get(f"{_PREFIX}{field.name.upper()}") for field in fields(cls)
        }
        return cls(
            models=tuple(map(Path, (values["models"] or "").splitlines())),
            run=Path(values["run"]) if values["run"] else None,
            base=Path(values["base"]) if values["base"] else None,
            device=values["device"] or "auto",
            language="en" if values["language"] == "en" else "zh",
        )
