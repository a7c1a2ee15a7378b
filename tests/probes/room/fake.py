"""A probe of a few lines: how good is the model? `fake_probe` adds it to the room."""

from __future__ import annotations

from qt_bert.probes.base import Context, Probe
from qt_bert.probes.claims import POINTS, beyond
from qt_bert.results.probe import HeadScores, ProbeResult, Source
from qt_bert.text import Text

SOURCE = Source(article="heads", section="1", value=70.0)


def run(context: Context) -> ProbeResult:
    from qt_bert.scoring.judge import judge_logits

    pairs = context.validation
    logits = context.model.logits([(pair.query, pair.title) for pair in pairs])
    context.work.mkdir(parents=True, exist_ok=True)
    with open(context.work / "runs.txt", "a", encoding="utf-8") as handle:
        handle.write("run\n")
    if (context.work.parent / "stop").exists():
        raise KeyboardInterrupt
    judged = judge_logits(logits, pairs, context.model.checkpoint.settings.labels)
    value = 100 * float((judged.predicted == judged.truth).mean())
    context.guards["difference"] = 1e-6
    above = beyond(
        "fake.above",
        Text("准确率高于零", "accuracy is above zero"),
        SOURCE,
        value,
        (value - 1, value + 1),
        p=0.01,
        n_queries=context.pairs_ref.n_queries or 0,
        unit=POINTS,
    )
    return ProbeResult(
        probe="fake",
        model=context.model_ref,
        pairs=context.pairs_ref,
        settings={"sample": context.choose(2, 20)},
        summary=Text("一个小探针", "a small probe"),
        findings=(above,),
        heads=(HeadScores(head="L0H1", scores={"score": 1.0}, selected=True),),
        sets={"chosen": ("L0H1",)},
    )


PROBE = Probe(
    name="fake",
    order=3,
    title=Text("小探针", "Fake"),
    question=Text("模型好吗？", "Is the model good?"),
    run=run,
    quick_seconds=1,
)
