"""Options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA, SCORING, TRAINING, STUDY = "Pairs · 数据", "Scoring · 评分", "Training · 训练", "Study · 研究"
SMALLER = "Smaller models · 压缩"

Columns = Annotated[
    str | None,
    typer.Option(
        help="Names of the file's columns: query=q,title=t,grade=label (positions from 1 with --no-header)."
    ),
]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is a pair, not names.")]
Grades = Annotated[
    str | None,
    typer.Option(help="What the labels mean: '0=1-2,1=3-4,2=5' (default: labels are grades 1–5)."),
]
MaxRejects = Annotated[
    float, typer.Option(help="Share of rows that may be rejects before the command stops.")
]
Limit = Annotated[
    int | None,
    typer.Option(
        min=1, help="Take about so many pairs of each file that is judged on, in whole queries."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="Model folder (or hub name). [default: the graded checkpoint that ships]"),
]
ModelGrades = Annotated[
    str | None, typer.Option(help="Which grades each logit means: '0=1-2,1=3-4,2=5'.")
]
Dtype = Annotated[str, typer.Option(help="float32, or bfloat16 where the processor has it.")]
MaxLength = Annotated[
    int | None, typer.Option(help="Tokens a pair may take; the title is cut first.")
]
Calibrated = Annotated[
    bool, typer.Option("--calibrated", help="Apply what `qt-bert calibrate` saved.")
]
Rejects = Annotated[Path | None, typer.Option(help="List the rejected rows in this file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on where an earlier run stopped.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every random draw.")]
Base = Annotated[
    str | None,
    typer.Option(help="Model before fine-tuning. [default: what ships, for the model that ships]"),
]
Second = Annotated[
    str | None,
    typer.Option(help="Model tuned from the same base with another seed, for the probe `shift`."),
]
Segmenter = Annotated[str, typer.Option(help="Cuts words: jieba, jieba-search, rjieba.")]
Full = Annotated[
    bool, typer.Option("--full", help="Take every pair and draw, where `quick` takes a sample.")
]
Pairs = Annotated[
    Path | None,
    typer.Option(help="File of graded pairs. [default: the test split that ships]"),
]

HeadsOut = Annotated[
    str | None,
    typer.Option(help="Leave these heads out: 'L2H1 L3H7', layers and heads from 0."),
]
HeadsOutMode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        help="What they are replaced by: zero, uniform, mean; or block: in them query and title "
        "cannot see each other. [default: zero]",
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option(
        help="Pairs to check --heads-out on and to take mean head outputs from, in the columns of the "
        "other file. [default: the dev split that ships]"
    ),
]

_STATES = typer.Option(
    help="Read the titles' lower layers from this folder of `qt-bert title-states`; what it does "
    "not know is computed whole."
)
TitleStates = Annotated[Path | None, _STATES]
StatesPlace = Annotated[str | None, _STATES]

CLUSTER = "Cluster · 集群"
Engine = Annotated[
    str,
    typer.Option(
        help="Who does the work: local, this process; or ray, actors on this machine or a cluster.",
        rich_help_panel=CLUSTER,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="With --engine ray: the cluster's HOST:PORT, or auto. [default: a private one here]",
        rich_help_panel=CLUSTER,
    ),
]
Actors = Annotated[
    int | None,
    typer.Option(
        help="With --engine ray: processes of one CPU each. [default: all CPUs]",
        rich_help_panel=CLUSTER,
    ),
]
RowsPerPartition = Annotated[
    int | None,
    typer.Option(
        help="With --engine ray: rows that an actor takes at a time. [default: about a minute's, at "
        "most 8192]",
        rich_help_panel=CLUSTER,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="With --engine ray: scan, measure a sample, say what the run would take.",
        rich_help_panel=CLUSTER,
    ),
]
PricePerHour = Annotated[
    float | None,
    typer.Option(
        help="With --dry-run: what a machine costs an hour.", min=0, rich_help_panel=CLUSTER
    ),
]

HeldOut = Annotated[
    list[Path] | None,
    typer.Option(help="Graded file for figures of its own (repeat it for several)."),
]
HeldOutColumns = Annotated[
    list[str] | None, typer.Option(help="Columns of each --held-out, in the same order.")
]
HeldOutGrades = Annotated[
    list[str] | None,
    typer.Option(help="What the labels of each --held-out mean, in the same order."),
]
Treebanks = Annotated[
    list[Path] | None,
    typer.Option(
        "--treebank",
        help="Universal Dependencies file, CoNLL-U (repeatable), for `relations`, `features`, `layers`.",
    ),
]
Texts = Annotated[
    Path | None,
    typer.Option(
        help="Pairs of other queries, for labels of `layers` that need no grader. [default: the "
        "train split that ships, with the test split that ships]"
    ),
]
BaselineTable = Annotated[
    Path | None,
    typer.Option(
        help="What experiments/baselines left, for `baselines`. [default: what ships, with the test "
        "split that ships]"
    ),
]

FunctionHeads = Annotated[
    str | None,
    typer.Option(
        "--heads",
        help="Heads to take for the matching ones ('L2H1 L3H7') in `patch`, `routes`, `surrogate`, "
        "`revert` and `ladder`. [default: those that `matching` finds]",
    ),
]
Cases = Annotated[
    Path | None,
    typer.Option(
        help="Queries with two titles each, for `behaviour`. [default: the cases that ship]"
    ),
]
BandFrom = Annotated[
    Path | None,
    typer.Option(
        help="Pairs on which `behaviour` measures the band of a model with one logit. [default: the "
        "discovery pairs]"
    ),
]
CorpusFile = Annotated[
    Path | None,
    typer.Option(
        "--corpus",
        help="Texts, one a line, in which `surrogate` counts how rare a word is. [default: the "
        "discovery pairs]",
    ),
]

PlanFile = Annotated[Path, typer.Option(help="The plan.json of `qt-bert plan`.")]

Recipe = Annotated[
    Path | None,
    typer.Option(help="TOML file: `text`, [[pairs]], [dev], [job], [settings], [loss]."),
]
DataFolder = Annotated[Path, typer.Option(help="Folder the recipe's file names start from.")]
ColumnsOfEach = Annotated[
    list[str] | None, typer.Option(help="Columns of each --pairs, in the same order.")
]
Rate = Annotated[float | None, typer.Option(help="Peak rate of AdamW.")]
DevGrades = Annotated[str, typer.Option(help="What the labels of --dev mean.")]
DevColumns = Annotated[str, typer.Option(help="Columns of --dev.")]
Epochs = Annotated[int | None, typer.Option(help="Passes over the pairs. [default: 3]")]
Slots = Annotated[int | None, typer.Option(help="Tokens a batch. [default: 3072]")]
TrainingDtype = Annotated[str | None, typer.Option(help="Of the products. [default: bfloat16]")]
TrainingSeed = Annotated[
    int | None, typer.Option(min=0, help="Seed of every random draw. [default: 0]")
]
NoCompile = Annotated[bool, typer.Option("--no-compile", help="Leave torch.compile out.")]
