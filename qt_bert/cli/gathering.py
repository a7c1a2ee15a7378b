"""What `report` and `probe` run on: model, pairs, further files, and the inputs that decide the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qt_bert.cli import opening
from qt_bert.cli.further import Further
from qt_bert.pairs.options import ReaderOptions
from qt_bert.shipped import GRADED, shipped

if TYPE_CHECKING:
    from qt_bert.study import RunInputs
    from qt_bert.study.probe_files import ProbeFiles


@dataclass(frozen=True)
class Gathered:
    """The folder of the model, the file of pairs, the other files, and the run's inputs."""

    model: Path
    pairs: Path
    files: ProbeFiles
    inputs: RunInputs


def gather(
    *,
    model: str | None,
    pairs: Path | None,
    base: str | None,
    reader: ReaderOptions,
    segmenter: str,
    full: bool,
    dtype: str,
    max_length: int | None,
    model_grades: str | None,
    resamples: int,
    seed: int,
    discovery: Path | None = None,
    second: str | None = None,
    userdict: Path | None = None,
    gold: Path | None = None,
    reference: Path | None = None,
    compared: str | None = None,
    compared_grades: str | None = None,
    further: Further | None = None,
) -> Gathered:
    """Fill in what ships and check what can be checked before the model is opened.

    `discovery` is a file to choose on; without it, dev goes with the test split that ships, and any
    other file is halved. Without `--base`, the pretrained model that ships is the base of the graded one that ships;
    another model, tuned from another one, gets none. Raises ArgumentError, CheckpointError or
    PairFileError for what cannot be meant or is not there.
    """
    path = opening.pairs_or_test(pairs)
    reader.open(path)
    from qt_bert.encoder.hub import resolve_folder
    from qt_bert.pairs.segmenters import check_segmenter
    from qt_bert.study.inputs import HEADS_GONE, has_pruned_heads, run_inputs
    from qt_bert.study.probe_files import ProbeFiles

    check_segmenter(segmenter, userdict=userdict)
    folder = resolve_folder(model if model is not None else shipped(GRADED))
    tuned_from = resolve_folder(base) if base is not None else opening.base_of(folder)
    files = ProbeFiles(
        discovery=discovery or opening.discovery_of(path),
        base=tuned_from,
        second=resolve_folder(second) if second is not None else None,
        userdict=userdict,
        gold=gold,
        reference=reference,
        compared=resolve_folder(compared) if compared is not None else None,
        **({} if further is None else further.files(path, tuned_from, reader.max_rejects)),
    )
    given = {
        "reader": asdict(reader),
        "dtype": dtype,
        "max_length": max_length,
        "model_grades": model_grades,
        "compared_grades": compared_grades,
        "resamples": resamples,
        "seed": seed,
        "profile": "full" if full else "quick",
        HEADS_GONE: has_pruned_heads(folder),
        **files.arguments(),
    }
    return Gathered(folder, path, files, run_inputs(folder, path, given, segmenter))
