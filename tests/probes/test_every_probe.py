"""Every probe on tiny random models of all kinds and on odd texts: a consistent result, or a reason."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.base import Context, Split, probe_named, probes, run_probe
from qt_bert.probes.wording import claims_in_words, measurements_in_words
from qt_bert.request import Request
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from tests.conftest import PAIRS
from tests.probes import planted_focus
from tests.probes.pieces import with_template
from tests.probes.planted_tuning import untrained

PROBES = [probe.name for probe in probes()]
MODELS: dict[str, dict[str, Any]] = {
    "one layer": {"family": "electra", "layers": 1},
    "one head, three levels, SentencePiece": {"family": "xlm-roberta", "heads": 1, "labels": 3},
    "no [SEP], no segments": {"template": "[CLS] $A $B"},
    "GTE, one logit": {"family": "gte", "labels": 1},
    "ModernBERT, mean of all tokens": {"family": "modernbert", "classifier_pooling": "mean"},
    "Qwen3": {"family": "qwen3"},
    "DeBERTa": {"family": "deberta-v2"},
}
PLAIN = "plain"
TEXTS = ("one query", "nothing shared", "no Chinese")
QUERIES = 42
"""Of discovery and validation together: of a half 21, enough for a claim to be judged."""


@pytest.fixture(scope="module")
def model_of(checkpoint_of, tmp_path_factory) -> Callable[[str], tuple[Path, Path]]:
    """A model of `MODELS`, or the usual one, and its base: the same with other weights."""

    def one(template=None, **options):
        folder = checkpoint_of(**options)
        if template is None:
            return folder
        return with_template(folder, template, tmp_path_factory.mktemp("odd") / "model")

    def both(name):
        options = MODELS.get(name, {})
        return one(**options), one(**options, seed=1)

    return both


def pairs_of(texts: str, labels: ModelLabels) -> list[Pair]:
    """Pairs of as many queries, with every label that the model may be judged by."""
    highest = labels.logits if labels.logits > 1 and labels.grades is None else 5
    found = []
    for number in range(QUERIES):
        query, title, _ = PAIRS[number % len(PAIRS)]
        query, title = f"{query}{number}", f"{title}{number % 7}"
        if texts == "one query":
            query = PAIRS[0][0]
        if texts == "nothing shared":
            query, title = f"狗{'追猫吃'[number % 3]}", f"{'北京上海'[number % 4]}高铁{number}"
        if texts == "no Chinese":
            query, title = f"phone {number}", f"cheap phone {number}"
        grade = 1 + number % highest
        found.append(Pair(query, title, (grade,), str(number), number + 1, str(grade), {}))
    return found


@pytest.fixture(scope="module")
def result_of(model_of, tmp_path_factory) -> Callable[[str, str, str], ProbeResult]:
    """A probe's result for a model on such texts, each computed once; probes read one another's."""
    known: dict[tuple[str, str, str], ProbeResult] = {}
    folder = tmp_path_factory.mktemp("every")
    file = folder / "pairs.tsv"
    file.write_text("query\ttitle\tgrade\n", encoding="utf-8")

    def find(probe, name, texts):
        if (probe, name, texts) not in known:
            model, base = model_of(name)

            def split(labels):
                pairs = pairs_of(texts, labels)
                return Split(pairs[::2], pairs[1::2], 0)

            context = Context(
                label=probe,
                request=Request(pairs=file, base=base, resamples=50),
                read_pairs=split,
                work=folder / f"{probe}-{name}-{texts}",
                open_model=lambda: Scorer(open_checkpoint(model)),
                result_of=lambda other: find(other, name, texts),
            )
            known[probe, name, texts] = run_probe(probe_named(probe), context)
        return known[probe, name, texts]

    return find


def check(result: ProbeResult, model: Path, path: Path) -> None:
    """Check that a result is consistent, and has a reason where it has no figures."""
    result.write(path)
    assert ProbeResult.read(path) == result and "NaN" not in path.read_text(encoding="utf-8")
    heads = {str(head) for head in open_checkpoint(model).shape.all_heads}
    assert {one.head for one in result.heads} in (set(), heads)
    assert {head for named in result.sets.values() for head in named} <= heads
    texts_shown = [result.summary]
    for claim, words in zip(result.claims, claims_in_words(result), strict=True):
        assert claim.verdict != "reproduced", "nothing is there to be found in random weights"
        if claim.verdict == "not testable":
            assert claim.reason and words.reason.en != claim.reason
        else:
            assert claim.value is not None and claim.n_queries >= 20
        texts_shown += [words.text, words.conclusion]
    assert result.measurements or all(one.verdict == "not testable" for one in result.claims)
    for measurement, named in zip(result.measurements, measurements_in_words(result), strict=True):
        ends = (measurement.ci_low, measurement.ci_high)
        assert (ends[0] is None) == (ends[1] is None)
        if ends[0] is not None and ends[1] is not None:
            assert ends[0] <= ends[1] and math.isfinite(ends[0]) and math.isfinite(ends[1])
        texts_shown.append(named.text)
    for text in texts_shown:
        for words_of in (text.zh, text.en):
            assert words_of and not re.search(r"[{}]|\bnan\b|\bNone\b", words_of)


@pytest.mark.parametrize(
    ("name", "texts"), [*((name, PLAIN) for name in MODELS), *((PLAIN, texts) for texts in TEXTS)]
)
@pytest.mark.parametrize("probe", PROBES)
def test_odd_input_gets_a_result_or_a_reason(probe, name, texts, model_of, result_of, tmp_path):
    check(result_of(probe, name, texts), model_of(name)[0], tmp_path / "result.json")


def test_layers_that_see_a_window_alone_are_named_with_it(result_of):
    result = result_of("redundancy", "ModernBERT, mean of all tokens", PLAIN)
    figures = {figure.name: figure for figure in result.figures}
    assert figures["heads"].rows == ("L0", "L1 ±4")
    note = "±n: tokens of this layer see n tokens to either side."
    assert figures["heads"].note.en.endswith(note)
    assert result.settings["windows"] == [None, 4]
    assert "windows" not in result_of("redundancy", "DeBERTa", PLAIN).settings


NAMED = {
    "order": ("order_named",),
    "matching": ("named",),
    "tuning": ("strengthened",),
    "focus": ("focused", "averted"),
}
"""Sets of heads that passed the bars of their probe; `boundary` has its own test."""


@pytest.mark.slow
@pytest.mark.parametrize("probe", NAMED)
def test_random_models_have_next_to_no_named_heads(probe, context_of, tmp_path):
    """Of twenty as they are before pretraining, on words in random order."""
    pairs = [
        replace(one, query=one.query.replace(" ", ""), title=one.title.replace(" ", ""))
        for one in planted_focus.pairs(120, seed=3)
    ]
    tokens = tmp_path / "tokens"
    planted_focus.write_tokenizer(tokens)
    naming = 0
    for seed in range(20):
        model, base = (untrained(tokens, tmp_path / f"{seed}-{at}", 2 * seed + at) for at in (0, 1))
        work = tmp_path / f"{seed}-sweeps"
        context = context_of(model, (pairs[:60], pairs[60:]), base=base, seed=seed, work=work)
        found = run_probe(probe_named(probe), context)
        naming += any(found.sets[name] for name in NAMED[probe])
    assert naming <= 2
