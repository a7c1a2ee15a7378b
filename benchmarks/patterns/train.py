"""From labelled maps to the classifier that ships: judged over folds, the better one fitted on all."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from safetensors.torch import save_file

from benchmarks.patterns.fit_network import fit_network
from benchmarks.patterns.fit_rules import fit_rules
from benchmarks.patterns.folds import groups
from benchmarks.patterns.judging import (
    compare_passes,
    counted,
    judge,
    network_held_out,
    rules_held_out,
)
from benchmarks.patterns.labels import FIRST, SECOND, Label, places, read_labels
from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import IntArray
from qt_bert.files import atomic_write, sha256_file, write_json
from qt_bert.probes.map_patterns import errors
from qt_bert.probes.map_patterns.classifier import (
    NETWORK,
    RECORD,
    RULES,
    WEIGHTS,
    TrainingRecord,
)
from qt_bert.probes.map_patterns.errors import ANSWERS
from qt_bert.probes.map_patterns.features import features
from qt_bert.probes.map_patterns.kinds import KINDS
from qt_bert.probes.map_patterns.maps import Maps
from qt_bert.probes.map_patterns.network import Network
from qt_bert.probes.map_patterns.stored import CELLS, RANDOM, TABLE, DrawnMap, read_maps
from qt_bert.results.codec import encode
from qt_bert.results.kept import KeptFile


def train_classifier(folder: Path, student: Path, seed: int) -> TrainingRecord:
    """Judge, fit and store; `student` is the folder that says which head of it was which before."""
    maps = read_maps(folder)
    ids = [one.id for one in maps]
    named = read_labels(folder / FIRST, ids)
    labels = places(named)
    second = places(read_labels(folder / SECOND, ids)) if (folder / SECOND).exists() else None
    seen = features(Maps.of_drawn(maps)).double().numpy()
    group = groups(maps, {"student": teachers(student)})
    trained = np.array([one.model != RANDOM for one in maps])
    said = {
        RULES: rules_held_out(seen, labels, group, seed),
        NETWORK: network_held_out(maps, labels, group, seed),
    }
    judged = {name: judge(one, labels, group, trained, seed) for name, one in said.items()}
    chosen = max(judged, key=lambda name: judged[name].macro_f1.value)
    told = {errors.FIRST: labels, **said}
    record = TrainingRecord(
        chosen=NETWORK if chosen == NETWORK else RULES,
        kinds=KINDS,
        counted=counted(labels),
        maps=len(maps),
        groups=len(set(group.tolist())),
        rules=fit_rules(seen, labels),
        rules_second=None,
        judged=judged,
        judged_second=None,
        passes=None,
        examples=examples(
            maps, named, [labels, *said.values(), labels if second is None else second]
        ),
        files={},
    )
    if second is not None:
        stricter = rules_held_out(seen, second, group, seed)
        told |= {errors.SECOND: second, errors.RULES_SECOND: stricter}
        record = replace(
            record,
            rules_second=fit_rules(seen, second),
            judged_second=judge(stricter, second, group, trained, seed),
            passes=compare_passes(labels, second, group, trained, seed),
        )
    network = fit_network(maps, labels, seed) if chosen == NETWORK else None
    return _store(folder, record, answers_table(maps, group, told), network)


def answers_table(
    maps: Sequence[DrawnMap], group: IntArray, told: Mapping[str, IntArray]
) -> list[list[str]]:
    """`answers.csv`, names first: where each map comes from, its labels, and what was said of it."""
    rows = [
        [one.id, one.model, str(head), *(KINDS[column[place]] for column in told.values())]
        for place, (one, head) in enumerate(zip(maps, group, strict=True))
    ]
    return [["id", "model", "group", *told], *rows]


def examples(
    maps: Sequence[DrawnMap], labels: Sequence[Label], passes: Sequence[IntArray]
) -> dict[str, str]:
    """The shortest map of each kind that all `passes` [n] call so, by kind; none where there is none.

    A block over everything is no example of one: an even grey says nothing.
    """
    agreed = [
        len({int(one[row]) for one in passes}) == 1 and not labels[row].whole
        for row in range(len(maps))
    ]
    found: dict[str, str] = {}
    for row in sorted(range(len(maps)), key=lambda row: len(maps[row].kinds)):
        if agreed[row]:
            found.setdefault(KINDS[passes[0][row]], maps[row].id)
    return found


def teachers(student: Path) -> dict[Head, Head]:
    """Each head of a smaller model by its name in the teacher; none for a model that is none."""
    kept = KeptFile.read(student)
    names = {} if kept is None else kept.names
    return {Head.parse(here): Head.parse(there) for here, there in names.items()}


def _store(
    folder: Path, record: TrainingRecord, answers: list[list[str]], network: Network | None
) -> TrainingRecord:
    """Write the answers, the network's weights where it was chosen, and the record."""
    with (
        atomic_write(folder / ANSWERS) as path,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        csv.writer(file, lineterminator="\n").writerows(answers)
    (folder / WEIGHTS).unlink(missing_ok=True)
    if network is not None:
        with atomic_write(folder / WEIGHTS) as path:
            save_file(network.state_dict(), path)
            path.chmod(0o644)
    names = (TABLE, CELLS, FIRST, SECOND, ANSWERS, WEIGHTS)
    files = {name: sha256_file(folder / name) for name in names if (folder / name).exists()}
    record = replace(record, files=files)
    write_json(folder / RECORD, encode(record))
    return record
