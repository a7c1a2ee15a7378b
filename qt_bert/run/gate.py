"""`compare --gate`: may the second model (B) replace the first (A)? Rules in TOML, each passed or not.

A metric passes where its whole 95 % interval lies above the loss that is allowed: B is non-inferior.
All rules must pass, so no interval is widened for their number (R. L. Berger, "Multiparameter hypothesis
testing and acceptance sampling", Technometrics 24, 1982). Cases are a fixed list and no sample: of a
phenomenon the scores themselves are compared.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qt_bert.codec import decode
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.shipped import BEHAVIOURS, shipped
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.verdict import LEAST_QUERIES, MOST_QUERIES, queries_needed

if TYPE_CHECKING:
    from qt_bert.probes.behaviour import Judged
    from qt_bert.probes.behaviour_cases import Cases
    from qt_bert.scoring.judge import PairScorer


class Rule(NamedTuple):
    """By so much (`margin`) B may be worse in a metric; in a slice, of the column's value, or of each
    (None)."""

    name: str
    margin: float
    column: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Gate:
    """A file of rules: metric → margin, column → the same or value → the same, phenomenon → margin.

    Slices of fewer queries than `skip_below` are not judged; `cases` is the file of the behaviours, which
    lies beside the gate (None: what ships).
    """

    cases: str | None = None
    skip_below: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    slices: dict[str, dict[str, float | dict[str, float]]] = field(default_factory=dict)
    behaviours: dict[str, float] = field(default_factory=dict)

    @property
    def rules(self) -> list[Rule]:
        """Those of metrics."""
        found = [Rule(*one) for one in self.metrics.items()]
        for column, table in self.slices.items():
            for name, given in table.items():
                if isinstance(given, dict):
                    found += [Rule(*one, column, name) for one in given.items()]
                else:
                    found.append(Rule(name, given, column))
        return found

    def read_cases(self) -> Cases:
        """The cases of the behaviours. Raises PairFileError as `read_cases` does."""
        from qt_bert.probes.behaviour_cases import read_cases

        return read_cases(shipped(BEHAVIOURS) if self.cases is None else Path(self.cases))


def read_gate(path: Path) -> Gate:
    """The rules of a TOML file. Raises ArgumentError, naming the key, where it holds anything else."""

    def bad(said: object) -> ArgumentError:
        return ArgumentError(f"--gate {path}: {said}")

    def known(what: str, names: Iterable[str], there: Iterable[str]) -> None:
        if unknown := set(names) - set(there):
            raise bad(f"no {what} {min(unknown)!r}; there are {', '.join(there)}")

    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        gate = decode(Gate, given, "a rule")
    except (OSError, ValueError, RunFolderError) as error:
        raise bad(error) from error
    if gate.cases is not None:
        gate = replace(gate, cases=str(path.parent / gate.cases))
    sided = [name for name, one in METRICS.items() if one.direction != "zero"]
    known("key", given, [one.name for one in fields(Gate)])
    known("metric", [one.name for one in gate.rules], sided)
    if not gate.rules and not gate.behaviours:
        raise bad("no rule; give [metrics], [slices.COLUMN] or [behaviours] with margins")
    for margin in (gate.skip_below, *(one.margin for one in gate.rules), *gate.behaviours.values()):
        if margin < 0:
            raise bad(f"{margin}: give numbers from 0 on")
    if gate.behaviours:
        known("phenomenon", gate.behaviours, gate.read_cases().phenomena)
    return gate


def judge_gate(
    gate: Gate,
    compared: Mapping[str, Any],
    models: tuple[PairScorer, PairScorer],
    pairs: Path,
    reader: ReaderOptions,
) -> dict[str, Any]:
    """`passed`, and of each of the `rules` `what`, `margin`, `change` (B − A) with its interval, `outcome`
    (passed, worse, open, skipped) and the `reason`.

    `compared` is what `compare_models` says of the two models, with the slices of the gate's columns.
    Raises ArgumentError for a slice that the pairs have not.
    """
    found: list[tuple[Any, ...]] = []
    for rule in gate.rules:
        for what, one in _about(rule, gate, compared):
            skip = rule.column is not None and one["n_eligible"] < gate.skip_below
            said = ("skipped", f"{one['n_eligible']} queries") if skip else _non_inferior(rule, one)
            figures = (one["difference"], one["ci_low"], one["ci_high"])
            found.append((what, rule.margin, *figures, *said))
    if gate.behaviours:
        a, b = (_told(model, gate.read_cases(), pairs, reader) for model in models)
        for name, margin in gate.behaviours.items():
            change = b[name].score - a[name].score
            lost = f"{(b[name].outcomes < a[name].outcomes).sum()} of {len(a[name])} cases lost"
            said = ("worse", lost) if change.value < -margin else ("passed", "")
            ends = change.interval() or (None, None)
            found.append((f"behaviour {name}", margin, change.value, *ends, *said))
    names = ("what", "margin", "change", "ci_low", "ci_high", "outcome", "reason")
    rules = [dict(zip(names, one, strict=True)) for one in found]
    return {"passed": all(r["outcome"] in ("passed", "skipped") for r in rules), "rules": rules}


def _about(
    rule: Rule, gate: Gate, compared: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What a rule is about, with its figures: all pairs, one slice, or each without a rule of its own."""
    if rule.column is None:
        yield rule.name, compared["metrics"][rule.name]
        return
    slices = compared["slices"][rule.column]
    if rule.value not in (None, *slices):
        raise ArgumentError(
            f"--gate: no {rule.column} {rule.value!r} in the pairs; there are {', '.join(slices)}"
        )
    own = {one.value for one in gate.rules if (one.name, one.column) == (rule.name, rule.column)}
    for value, metrics in slices.items():
        if rule.value == value or (rule.value is None and value not in own):
            yield f"{rule.name}, {rule.column} {value}", metrics[rule.name]


def _non_inferior(rule: Rule, one: Mapping[str, Any]) -> tuple[str, str]:
    """Outcome and reason: whether the whole interval lies above −margin, on the side that is better."""
    n = one["n_eligible"]
    if one["ci_low"] is None:
        return "open", one["reason"] or "not defined"
    if n < LEAST_QUERIES:
        return "open", f"{n} queries; a judgement needs {LEAST_QUERIES}"
    sign = -1.0 if METRICS[rule.name].direction == "lower" else 1.0
    low, high = sorted(sign * end for end in (one["ci_low"], one["ci_high"]))
    if low >= -rule.margin:
        return "passed", ""
    if high < -rule.margin:
        return "worse", "the whole interval lies beyond the margin"
    gain = sign * one["difference"]
    if gain <= -rule.margin:
        return "open", "worse by more than the margin, though not surely"
    needed = queries_needed(n, gain - low, gain + rule.margin)
    count = f"{needed:,}" if needed <= MOST_QUERIES else f"more than {MOST_QUERIES:,}"
    return "open", f"the interval holds the margin; {count} queries would decide, here {n:,}"


def _told(model: PairScorer, cases: Cases, pairs: Path, reader: ReaderOptions) -> dict[str, Judged]:
    """The cases of each phenomenon as a model scores them; one logit's band is measured on the pairs."""
    import numpy as np

    from qt_bert.data.splits import sample_queries
    from qt_bert.probes import behaviour
    from qt_bert.probes.behaviour_cases import titles_then_others
    from qt_bert.scoring.judge import graded_pairs, ranking_scores

    labels = model.settings.labels

    def scores(some: Sequence[Any]) -> Any:
        return ranking_scores(model.logits([(p.query, p.title) for p in some]), labels)

    band = behaviour.fixed_band(labels)
    if band is None:
        ranked = behaviour.ranked_pairs(graded_pairs(pairs, reader, labels)[0])
        if not ranked:
            raise ArgumentError(
                f"--gate: [behaviours] of {model.name}, one logit: {pairs} needs queries of "
                "two titles, to tell when two scores differ"
            )
        ranked = sample_queries(ranked, behaviour.QUICK_PAIRS)
        band = behaviour.measured_band(scores(ranked), [one.query for one in ranked], pairs.name)
    titles, others = np.split(scores(titles_then_others(cases.listed)), 2)
    return behaviour.Judged(cases.listed, titles, others, band.value).by_phenomenon()
