"""The texts of every probe, under every verdict, in both languages; every id has a text and conversely."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert import probes
from qt_bert.data.segmenters import Segmenter
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.base import Context, probe_named, read_split, run_probe
from qt_bert.probes.texts import COMMON, Texts, declared, texts_of
from qt_bert.probes.wording import claims_in_words, measurements_in_words
from qt_bert.request import Request
from qt_bert.results.head_sets import SETS
from qt_bert.results.probe import ProbeResult, SourcedClaim
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.verdict import MOST_QUERIES
from qt_bert.text import Text
from tests.probes import (
    planted_baselines,
    planted_focus,
    planted_order,
    planted_relations,
    planted_tuning,
)
from tests.probes.made_context import context_of
from tests.probes.planted_boundary import (
    ENDS,
    HAN,
    plant_word_ends,
    spans_of,
    words_of,
    write_pairs,
)
from tests.wired import wired_checkpoint, wired_pairs

PROBES = [name for name in declared() if texts_of(name).value("order") is not None]
CHAINED = ("focus", "patch", "routes")
"""Probes run on the chain of two heads, on its pairs."""
HEADS = {"patch": "L1H0 L2H1", "routes": planted_focus.MATCHER}
FULL = ("behaviour", "usage", "redundancy")
"""Probes that show all they have under `--full` alone."""
REASONS = {
    "reproduced": ("decided",),
    "not reproduced": ("decided",),
    "inconclusive": ("interval", "p", "rank"),
    "not testable": (
        *("few_queries", "few_of_a_label", "zero_width", "undefined", "few_sets", "grades_nothing"),
        "precondition:gap",
    ),
}
SAMPLE = {"margin": 2.0, "p": 0.2, "queries": 5}
"""What reasons are filled from."""
FIELD = re.compile(r"\{[a-z][a-z0-9_]*(?::[^{}]+)?\}")
CONDITIONS = re.compile(r"\{%|\{\{| if any| if there | where there | or none|如果|若有|若无")
KEYS_OF_FIGURES = {"title", "x_label", "y_label", "unit", "x_unit", "y_unit", "note", "sets"}


@pytest.fixture(scope="module")
def results(tmp_path_factory, checkpoint_of) -> Callable[[str], ProbeResult]:
    """The result of a probe on a model that fills all its texts, with every input."""
    folder = tmp_path_factory.mktemp("texts")
    planted = {
        "boundary": plant_word_ends(folder / "planted", ENDS),
        "focus": planted_focus.plant(folder / "reader", heads=8),
        "routes": folder / "reader",
        "patch": planted_focus.plant(folder / "chain"),
        "order": planted_order.plant(checkpoint_of(**planted_order.SHAPE), folder / "order"),
        "features": checkpoint_of(layers=3, heads=4, hidden=32),
        "redundancy": wired_checkpoint(folder / "wired", spoiler=-0.25),
        "relations": planted_relations.plant_links(folder / "links"),
        "tuning": planted_tuning.plant(
            checkpoint_of(**planted_tuning.SHAPE), folder / "tuned", 1.0
        ),
    }
    many_heads = checkpoint_of(layers=4, heads=5, hidden=40)
    models = {
        **dict.fromkeys(PROBES, checkpoint_of()),
        **dict.fromkeys(("matching", "ladder"), many_heads),
        **planted,
    }
    graded = planted_order.graded_by(Scorer(open_checkpoint(models["order"])), queries=110)
    chain = planted_focus.pairs(110, 1)
    own = {
        **dict.fromkeys(CHAINED, chain),
        "order": graded,
        "baselines": planted_baselines.pairs_of(60),
        "redundancy": wired_pairs(120),
    }
    for probe, listed in own.items():
        rows = [f"{one.query}\t{one.title}\t{(one.grades or (0,))[0]}" for one in listed]
        text = "\n".join(["query\ttitle\tgrade", *rows])
        (folder / f"{probe}.tsv").write_text(text + "\n", encoding="utf-8")
    labels = open_checkpoint(models["baselines"]).settings.labels
    half = read_split(Request(pairs=folder / "baselines.tsv"), labels).validation
    table = planted_baselines.write(folder / "table", half)
    pairs = write_pairs(folder / "pairs.tsv", queries=60, titles=2)
    gold = folder / "gold.txt"
    rng = np.random.default_rng(0)
    lines = (" ".join(words_of("".join(rng.choice(list(HAN), 12)))) for _ in range(20))
    gold.write_text("\n".join(lines) + "\n", encoding="utf-8")
    treebank = planted_relations.write_treebank(folder / "bank.conllu", 240)
    second = planted_tuning.plant(checkpoint_of(**planted_tuning.SHAPE), folder / "second", 0.5)
    known: dict[str, ProbeResult] = {}

    def found(name):
        if name not in known:
            model = models[name]
            context = context_of(
                name,
                model,
                folder,
                pairs=folder / f"{name}.tsv" if name in own else pairs,
                base=model,
                second=second if name == "tuning" else None,
                gold=gold,
                heads=HEADS.get(name),
                full=name in FULL,
                treebank=[treebank],
                baseline_table=table,
                resamples=50,
                work=folder / "work" / name,
                result_of=found,
            )
            if name not in own:
                context.segmenter = Segmenter("jieba", spans_of)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Context, "sign", lambda *_: 1)
                known[name] = run_probe(probe_named(name), context)
        return known[name]

    return found


def under_every_verdict(claim: SourcedClaim) -> Iterator[SourcedClaim]:
    for verdict, reasons in REASONS.items():
        for reason in reasons:
            for needs in (None, (400, 1_300), (400, MOST_QUERIES + 1), 2 * (MOST_QUERIES + 1,)):
                yield replace(claim, verdict=verdict, reason=reason, needs_queries=needs, p=0.2)


def check(text: Text, what: str) -> None:
    for words in (text.zh, text.en):
        assert words and not re.search(r"[{}]|nan|None", words), (what, words)


@pytest.mark.parametrize("name", PROBES)
def test_every_id_has_its_text_and_every_text_its_id(name, results):
    result, texts = results(name), texts_of(name)
    units = set(texts_of(COMMON).ids("units"))
    ids = {
        "claims": {one.id.removeprefix(f"{name}.") for one in result.claims},
        "measurements": {one.id for one in result.measurements},
        "figures": {one.name for one in result.figures},
        "tables": {one.name for one in result.tables},
    }
    assert ids == {kind: set(texts.ids(kind)) for kind in ids}
    assert set(result.sets) <= set(SETS)
    for figure in ids["figures"]:
        assert set(texts.ids(f"figures.{figure}")) <= KEYS_OF_FIGURES
        assert set(texts.value(f"figures.{figure}.sets", ())) <= set(result.sets)
    for claim in result.claims:
        declared = texts.value(f"claims.{claim.id.removeprefix(f'{name}.')}")
        assert declared["side"] in ("above", "below") and declared["unit"] in units
        own = [
            replace(claim, verdict="not testable", reason=reason) for reason in texts.ids("reasons")
        ]
        for judged in (*own, *under_every_verdict(claim)):
            (words,) = claims_in_words(replace(result, claims=(judged,)))
            check(words.text, claim.id)
            check(words.conclusion, f"{claim.id} {judged.verdict}")
            assert words.text.en != claim.id and words.reason.en != judged.reason
            assert (words.reason == Text("", "")) == (judged.reason == "decided")
    for measured in measurements_in_words(result):
        id = measured.measurement.id
        check(measured.text, id)
        assert measured.text.en != id
        assert texts.value(f"measurements.{id}.unit", "") in {"", *units}
    # Also what this run did not show: reasons why there is nothing to measure.
    for path, _ in _texts_in(texts._table):
        check(texts.text(path, {**result.facts, **SAMPLE}), path)
    check(result.summary, "summary")


def _texts_in(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, str]]]:
    if set(table) & {"zh", "en"}:
        yield path, table
        return
    for key, one in table.items():
        if isinstance(one, Mapping):
            yield from _texts_in(one, f"{path}.{key}" if path else key)


@pytest.mark.parametrize("table", [*PROBES, "plan", COMMON])
def test_texts_have_both_languages_plain_fields_and_no_conditions(table):
    for path, languages in _texts_in(Texts(table)._table):
        assert {"zh", "en"} <= set(languages), path
        for words in (languages["zh"], languages["en"]):
            assert words.strip() == words and words, path
            assert not re.search(r"[{}]", FIELD.sub("", words)), path
            assert not CONDITIONS.search(words), path
        zh, en = (sorted(set(FIELD.findall(languages[one]))) for one in ("zh", "en"))
        assert zh == en, path


def test_every_set_with_words_is_one_that_a_probe_names():
    folder = Path(probes.__file__).parent
    code = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    words = tomllib.loads((folder.parent / "results/head_sets.toml").read_text("utf-8"))
    assert [name for name in words["sets"] if f'"{name}"' not in code] == []
