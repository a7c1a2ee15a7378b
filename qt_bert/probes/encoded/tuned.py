"""Models that were fine-tuned from random weights, where the initialisation study left theirs."""

from __future__ import annotations

from pathlib import Path

from qt_bert.encoder import Checkpoint, open_checkpoint
from qt_bert.errors import CheckpointError
from qt_bert.results.initialisations import read_initialisations

WEIGHTS = "model.safetensors"


def tuned_from_random(folder: Path | None, like: Checkpoint) -> list[Checkpoint]:
    """Those of the study in `folder` whose weights are there; none without a study.

    A record that ships has none of them. Raises RunFolderError for a damaged study, CheckpointError
    for models of other tokens than `like`.
    """
    if folder is None:
        return []
    record = read_initialisations(folder).record
    names = [
        record.tries[place].folder for place in record.final if record.tries[place].arm == "random"
    ]
    found = [folder / name for name in names if name and (folder / name / WEIGHTS).is_file()]
    return [_opened(one, like) for one in found]


def _opened(folder: Path, like: Checkpoint) -> Checkpoint:
    checkpoint = open_checkpoint(folder)
    if checkpoint.tokenizer.get_vocab() != like.tokenizer.get_vocab():
        raise CheckpointError(
            f"{folder}: its vocabulary is not that of {like.folder}, so their vectors are not of the "
            "same texts; give the study made from the same base with --initialisations"
        )
    return checkpoint
