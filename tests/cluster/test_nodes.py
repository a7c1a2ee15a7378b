"""What a machine shows of itself before work begins; with a cluster see `test_score_ray.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qt_bert.cluster.score import Question, _unseen, look
from qt_bert.cluster.worker import program
from tests.cluster.planted import job_of, write_pairs


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The folder and the threads that a proof changes."""
    threads, folder = torch.get_num_threads(), os.getcwd()
    yield
    torch.set_num_threads(threads)
    os.chdir(folder)


@pytest.fixture
def question(checkpoint_of: Any, tmp_path: Path) -> Question:
    day = write_pairs(tmp_path / "day.tsv", ["高铁票价", "狗追猫"])
    return Question(
        inputs={"day.tsv": day.stat().st_size},
        job=job_of(checkpoint_of(), day, tmp_path / "out"),
        program=program(),
        folder=str(tmp_path),
        mark="begun/n1.seen",
    )


def test_a_machine_that_is_as_it_should_be_leaves_a_mark_and_says_nothing(
    question: Question,
) -> None:
    assert look(question) is None
    assert (Path(question.job.out) / question.mark).is_file()
    assert _unseen("machine n1", question) is None
    assert not (Path(question.job.out) / question.mark).exists()


def test_a_machine_that_writes_elsewhere_is_found_out(question: Question) -> None:
    assert "is another folder there than here" in str(_unseen("machine n1", question))


@pytest.mark.parametrize(("size", "words"), [(3, "has 67 bytes there, and 3"), (67, None)])
def test_an_input_of_another_size_is_another_file(
    question: Question, size: int, words: str
) -> None:
    found = look(replace(question, inputs={"day.tsv": size}))
    assert (words in str(found)) if words else found is None


def test_an_input_that_is_not_there(question: Question) -> None:
    assert str(look(replace(question, inputs={"no.tsv": 1}))).startswith(
        "no.tsv: cannot be read there"
    )


def test_another_program(question: Question) -> None:
    other = question.program | {"torch": "1.0", "source of qt-bert": "0"}
    assert "another version of torch, source of qt-bert" in str(
        look(replace(question, program=other))
    )


def test_another_model(question: Question, checkpoint_of: Any) -> None:
    other = checkpoint_of(seed=5)
    found = look(replace(question, job=replace(question.job, model=str(other))))
    assert "another model than the run was begun with (it differs in weights" in str(found)
    gone = look(replace(question, job=replace(question.job, model="/no/such/model")))
    assert "/no/such/model" in str(gone)


def test_a_folder_that_cannot_be_written(question: Question, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    job = replace(question.job, out=str(tmp_path / "file"))
    assert "file: cannot be written" in str(look(replace(question, job=job)))
