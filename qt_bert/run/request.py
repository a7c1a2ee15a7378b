"""From a request to what runs: what ships is filled in, the run's inputs are hashed, the model is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.request import (
    HeadsOutOptions,
    ModelOptions,
    Request,
    base_of,
    discovery_of,
    is_shipped,
)
from qt_bert.results.baselines import RECORD
from qt_bert.results.probe import ModelRef, PairsRef
from qt_bert.run.folder import RunInputs
from qt_bert.shipped import BASELINES, BEHAVIOURS, DEV, GRADED, TEST, TRAIN, shipped, ships

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.judge import PairScorer


def resolve(request: Request) -> Request:
    """The request with what ships filled in, checked as far as it can be before the model is opened.

    Dev goes with the test split that ships, and so does the table of baselines, which was measured on all of
    it; the pretrained model that ships is the base of the graded one. Raises ArgumentError, CheckpointError or
    PairFileError for an invalid option or a missing file.
    """
    pairs = request.validation_file
    request.reader.open(pairs)
    for path, reader in request.held_out_files():
        reader.open(path)
    from qt_bert.data.segmenters import check_segmenter
    from qt_bert.models.devices import check_dtype, open_device
    from qt_bert.models.folder import resolve_folder
    from qt_bert.scoring.behaviour_cases import read_cases

    check_segmenter(request.segmenter, userdict=request.userdict)
    model = resolve_folder(shipped(GRADED) if request.model is None else request.model)
    base = base_of(model) if request.base is None else resolve_folder(request.base)
    for option in ("gold", "treebank", "texts", "cases", "band_from"):
        value = getattr(request, option)
        for path in value if isinstance(value, list) else [value]:
            if path is not None and not path.is_file():
                raise ArgumentError(f"--{option.replace('_', '-')} {path}: there is no such file")
    on_test = is_shipped(pairs, TEST)
    table = request.baseline_table
    if table is None and request.reader.limit is None and on_test and ships(BASELINES):
        table = shipped(BASELINES)
    if table is not None and not (table / RECORD).is_file():
        raise ArgumentError(f"--baseline-table {table}: no {RECORD} in that folder")
    if request.cases is not None:
        read_cases(request.cases)  # a bad row is an error now, not after minutes of other work
    device = open_device(request.device)
    check_dtype(request.dtype, device)
    return replace(
        request,
        model=str(model),
        device=str(device),
        pairs=pairs,
        discovery=request.discovery or discovery_of(pairs),
        base=base,
        second=None if request.second is None else resolve_folder(request.second),
        texts=request.texts or (shipped(TRAIN) if on_test else None),
        baseline_table=table,
        cases=request.cases or (shipped(BEHAVIOURS) if ships(BEHAVIOURS) else None),
    )


def run_inputs(request: Request) -> RunInputs:
    """What decides a run: model and pairs by hash, and every other field as a plain JSON value.

    The model's hash covers every file of its folder, so that another calibration, meaning of the
    logits or card never answers from an old run. Raises CheckpointError for a folder that is no model.
    """
    from qt_bert.models.devices import device_name, open_device

    arguments = {
        one.name: described(getattr(request, one.name), one.name)
        for one in fields(request)
        if one.name not in ("model", "pairs")
    }
    device = open_device(request.device)
    if device.type == "cuda":
        arguments["device"] += f" {device_name(device)}"
    model = Path(request.model or shipped(GRADED))
    return RunInputs(
        model=ModelRef(**described(model, "model")),
        pairs=PairsRef(**described(request.validation_file)),
        arguments=arguments,
    )


def described(value: Any, name: str = "") -> Any:
    """A request's field `name` as a plain JSON value: files and folders by name and SHA-256."""
    if isinstance(value, list):
        return [described(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if not isinstance(value, Path):
        return value
    if name in ("model", "base", "second"):
        from qt_bert.models.folder import folder_sha256, verify_folder

        verify_folder(value)
        return {"name": value.name, "sha256": folder_sha256(value)}
    file = value / RECORD if name == "baseline_table" else value
    return {"name": value.name, "sha256": sha256_file(file)}


# The model, ready to score.


def open_model(
    options: ModelOptions,
    heads_out: HeadsOutOptions | None = None,
    reader: ReaderOptions | None = None,
    *,
    by_head: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> Scorer:
    """The model, ready to score; `notify` gets warnings.

    The heads of `heads_out` are left out, its reference pairs read by `reader`. Unless single heads are
    needed (`by_head`), a pruned model is opened as small as it is stored. Raises ArgumentError for an
    invalid option, CheckpointError for a folder that cannot be opened.
    """
    from qt_bert.models.devices import has_bfloat16
    from qt_bert.models.opening import open_checkpoint
    from qt_bert.scoring.bulk import Scorer

    heads = None if heads_out is None else heads_out.heads_out
    checkpoint = open_checkpoint(
        shipped(GRADED) if options.model is None else options.model,
        dtype=options.dtype,
        device=options.device,
        model_grades=options.model_grades,
        reading=options.reading,
        compact=not by_head and heads is None,
    )
    if options.dtype == "bfloat16" and checkpoint.device.type == "cpu" and not has_bfloat16():
        notify("this processor has no bfloat16 products: float32 will be faster")
    scorer = Scorer(checkpoint, max_length=options.max_length)
    if heads_out is None or heads is None:
        return scorer
    from qt_bert.ablation.request import leave_heads_out

    path, mode = heads_out.reference, heads_out.mode or "zero"
    columns = ReaderOptions() if path is None or reader is None else reader
    pairs = list(columns.open(shipped(DEV) if path is None else path))
    scorer = leave_heads_out(scorer, heads, mode, pairs)
    notify(f"{checkpoint.name} without {scorer.describe()['heads_out']} ({mode})")
    return scorer


def open_scorer(
    options: ModelOptions,
    heads_out: HeadsOutOptions | None = None,
    reader: ReaderOptions | None = None,
    *,
    notify: Callable[[str], None] = lambda line: None,
) -> PairScorer:
    """As `open_model`, where scores are enough: also a folder or file of `qt-bert export --onnx`."""
    from qt_bert.planning.export_session import OnnxScorer
    from qt_bert.results.plan import EXPORT

    place = Path(options.model or "")
    if options.model is None or not (place.suffix == ".onnx" or (place / EXPORT).is_file()):
        return open_model(options, heads_out, reader, notify=notify)
    others = replace(options, max_length=None, model_grades=None)
    plain = ModelOptions(options.model, device="cpu" if options.device == "cpu" else "auto")
    if others != plain or (heads_out is not None and heads_out.heads_out is not None):
        raise ArgumentError(
            f"{options.model}: an ONNX export runs on the CPU as it was exported; only --max-length and "
            "--model-grades go with it"
        )
    return OnnxScorer(
        options.model, max_length=options.max_length, model_grades=options.model_grades
    )
