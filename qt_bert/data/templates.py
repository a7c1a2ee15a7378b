"""Prompt templates: how a causal language model grades a pair by its next token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import read_json


@dataclass(frozen=True)
class Template:
    """`prefix` `before` query `between` title `suffix`, and the words for yes and no.

    The model's one logit is log p(yes) − log p(no) of the next token. Prefix, middle and suffix are
    tokenised separately, as the model's authors do.
    """

    prefix: str
    before: str
    between: str
    suffix: str
    yes: str = "yes"
    no: str = "no"

    @classmethod
    def read(cls, value: Any, where: str) -> Template | None:
        """From `template` in qt_bert.json: a name, its texts, or null. Raises CheckpointError."""
        if value is None:
            return None
        if isinstance(value, str) and value in TEMPLATES:
            return TEMPLATES[value]
        names = [field.name for field in fields(cls)]
        texts = isinstance(value, Mapping) and set(value) <= set(names)
        if not texts or not all(isinstance(text, str) for text in value.values()):
            raise CheckpointError(
                f"{where} is {value!r}; it must be one of {', '.join(TEMPLATES)}, or an object of the "
                f"texts {', '.join(names)}"
            )
        missing = [name for name in names[:4] if name not in value]
        if missing:
            raise CheckpointError(f"{where} lacks {', '.join(missing)}")
        return cls(**value)

    @classmethod
    def from_option(cls, option: str) -> Template:
        """From `--template`: a known name, or a JSON file of the texts. Raises ArgumentError."""
        if option in TEMPLATES:
            return TEMPLATES[option]
        path = Path(option)
        if not path.is_file():
            raise ArgumentError(
                f"--template {option}: neither a file nor one of {', '.join(TEMPLATES)}"
            )
        try:
            template = cls.read(read_json(path), str(path))
        except ValueError as error:
            raise ArgumentError(f"--template {path}: not valid JSON ({error})") from error
        except CheckpointError as error:
            raise ArgumentError(f"--template {error}") from error
        if template is None:
            raise ArgumentError(f"--template {path}: null is no template")
        return template


TEMPLATES = {
    "qwen3-reranker": Template(
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
        'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
        "<|im_start|>user\n",
        "<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
        "<Query>: ",
        "\n<Document>: ",
        "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    )
}
