"""How a causal language model is asked about a pair, and which of its words are the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import read_json


@dataclass(frozen=True)
class Template:
    """`prefix` `before` query `between` title `suffix`, and the words that mean yes and no.

    The model's one logit is log p(yes) − log p(no) of the next token. Prefix and suffix are tokenised
    apart, the middle in one piece, as the model's authors do.
    """

    prefix: str
    before: str
    between: str
    suffix: str
    yes: str = "yes"
    no: str = "no"

    @classmethod
    def read(cls, value: Any, where: str) -> Template | None:
        """From `template` in qt_bert.json: a known name, or an object of these texts; None for null.

        Raises CheckpointError for what is neither.
        """
        if value is None:
            return None
        if isinstance(value, str) and value in TEMPLATES:
            return TEMPLATES[value]
        names = [one.name for one in fields(cls)]
        texts = isinstance(value, Mapping) and set(value) <= set(names)
        if not texts or not all(isinstance(one, str) for one in value.values()):
            raise CheckpointError(
                f"{where} is {value!r}; it must be one of {', '.join(TEMPLATES)}, or an object of the "
                f"texts {', '.join(names)}"
            )
        missing = [name for name in names[:4] if name not in value]
        if missing:
            raise CheckpointError(f"{where} lacks {', '.join(missing)}")
        return cls(**value)

    @classmethod
    def asked(cls, given: str) -> Template:
        """From `--template`: a known name, or a JSON file of the texts. Raises ArgumentError."""
        if given in TEMPLATES:
            return TEMPLATES[given]
        path = Path(given)
        if not path.is_file():
            raise ArgumentError(
                f"--template {given}: neither a file nor one of {', '.join(TEMPLATES)}"
            )
        try:
            found = cls.read(read_json(path), str(path))
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"--template {path}: not valid JSON ({error})") from error
        except CheckpointError as error:
            raise ArgumentError(f"--template {error}") from error
        if found is None:
            raise ArgumentError(f"--template {path}: null is no template")
        return found


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
