"""The best weights on dev of a run that was stopped, as a folder to go on from.

python -m experiments.grades.best runs/first.training --base runs/pretrained --out runs/start

The folder of the run is the one that `qt-bert train` keeps beside its --out until the end; --base is that
run's own. Stop the run with Ctrl-C once its log shows the evaluation.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.loading import stored_dtype
from qt_bert.training.finetune import TrainJob
from qt_bert.training.state import read_log, read_state

PREFIX = "best/model."
"""In the state of a run: of the classifier's weights at its best evaluation, in float32."""


def save_best(run: Path, base: Path, out: Path) -> Path:
    """Write the classifier of the best evaluation so far, in the number type of `base`, as the run would have.

    Raises ArgumentError for a run without an evaluation, RunFolderError for a damaged one, CheckpointError for
    a folder that is no base.
    """
    tensors, values = read_state(run) or ({}, {})
    weights = {n.removeprefix(PREFIX): v for n, v in tensors.items() if n.startswith(PREFIX)}
    if not weights:
        raise ArgumentError(f"{run}: no evaluation of an unfinished run; give OUT.training")
    length = values["settings"]["max_length"]
    start = TrainJob(sources=(), base=base, max_length=length).open(seed=0)
    return save_checkpoint(
        out,
        start.model.float(),
        start.tokenizer,
        state=weights,
        settings=start.settings,
        kept=start.kept,
        dtype=stored_dtype(base),
    )


def main(arguments: list[str] | None = None) -> None:
    """Write the folder; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path, metavar="OUT.training")
    parser.add_argument("--base", type=Path, required=True, help="that the run started from")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    with one_line_faults():
        folder = save_best(options.run, options.base, options.out)
    print(f"{folder}: the best of {len(read_log(options.run / 'log.jsonl'))} evaluations")


if __name__ == "__main__":
    main()
