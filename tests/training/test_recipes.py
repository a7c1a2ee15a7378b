"""Training sources: what a recipe says is what is read."""

from pathlib import Path

import pytest

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.training.finetune import TuneSettings, check_settings
from qt_bert.training.pretrain import BatchShape, PretrainSettings
from qt_bert.training.pretrain import check_settings as check_pretraining
from qt_bert.training.recipes import PairSource, Recipe, TrainingFiles, load_recipe, typed

ROWS = [
    ("甲乙丙丁", "甲乙", "0"),
    ("戊己庚辛", "戊己", "1"),
    ("壬癸子丑", "壬癸", "2"),
    ("甲乙丙丁", "丙丁", "2"),
]


def write(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def file(tmp_path) -> Path:
    return write(tmp_path / "a.tsv", "query\ttitle\tlabel", *map("\t".join, ROWS))


def test_labels_choose_rows_and_grades_read_them(file):
    source = PairSource(file, columns="grade=label", grades="0=1-2,1=3,2=4-5", labels=("0", "2"))
    assert [p.grades for p in source.read()] == [(1, 2), (4, 5), (4, 5)]


def test_excluded_queries_are_left_out(file, tmp_path):
    other = write(tmp_path / "held_out.tsv", "query\ttitle", "甲乙丙丁\t什么")
    read = PairSource(file, columns="grade=label", exclude=(other,)).read()
    assert [p.query for p in read] == ["戊己庚辛", "壬癸子丑"]
    write(spelled := tmp_path / "spelled.tsv", "query\ttitle", "甲乙 丙丁\t什么")
    assert PairSource(file, columns="grade=label", exclude=(spelled,)).read() == read


def test_a_file_without_labels_stands_for_one_set(file):
    source = PairSource(file, columns="grade=label", always="4-5")
    assert {p.grades for p in source.read()} == {(4, 5)}


def test_of_an_unlabelled_source_the_texts_alone_are_read(file, tmp_path):
    read = PairSource(file, columns="grade=label", unlabelled=True).read(labelled=True)
    assert len(read) == 4 and {p.grades for p in read} == {None}
    bare = write(tmp_path / "bare.tsv", "query\ttitle", "甲\t乙")
    (source,) = TrainingFiles().sources(Recipe(), [bare])
    assert [p.query for p in source.read(labelled=True)] == ["甲"]
    with pytest.raises(ArgumentError, match="--unlabelled .*no such file"):
        TrainingFiles().sources(Recipe(), [tmp_path / "none.tsv"])


def test_a_tenth_and_the_rest_are_the_whole(tmp_path):
    path = write(tmp_path / "many.tsv", "query\ttitle", *(f"q{i}\tt" for i in range(900)))
    alone = {p.query for p in PairSource(path, tenth="alone").read()}
    rest = {p.query for p in PairSource(path, tenth="left out").read()}
    assert len(alone | rest) == 900 and not alone & rest
    assert 60 < len(alone) < 120
    other = write(tmp_path / "other.tsv", "query\ttitle", *(f"Q {i}\tt" for i in range(900)))
    spelled = PairSource(other, tenth="alone").read()
    assert {p.query.replace("Q ", "q") for p in spelled} == alone


def test_a_recipe_is_read_relative_to_the_data(file, tmp_path):
    write(tmp_path / "t1.txt", "一行")
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        'text = ["t*.txt"]\n[[pairs]]\nfile = "a.tsv"\ncolumns = "grade=label"\n'
        'labels = [1]\nweight = 0.5\n[dev]\nfile = "a.tsv"\n[settings]\nepochs = 1\n'
    )
    read = load_recipe(recipe, tmp_path)
    assert read.text == [tmp_path / "t1.txt"]
    assert read.pairs[0].labels == ("1",) and read.pairs[0].weight == 0.5
    assert read.dev is not None and read.dev.file == file
    assert read.settings == {"epochs": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[setting]\nepochs = 1\n", "unknown 'setting'"),
        ("settings = 3\n", "settings must be a table"),
        ("text = 3\n", "text must be a list"),
        ('text = ["none*.txt"]\n', "no file matches 'none"),
        ('text = [""]\n', "no pattern"),
        ('text = ["/etc/*"]\n', "no pattern"),
        ("[[pairs]]\nfile = 3\n", "without `file`"),
        ('[[pairs]]\nfile = "a.tsv"\nlabels = 1\n', "labels = 1"),
        ('[[pairs]]\nfile = "a.tsv"\nlabels = "12"\n', "labels = '12'"),
        ('[[pairs]]\nfile = "a.tsv"\ncolumns = 3\n', "columns = 3 is no str"),
        ('[[pairs]]\nfile = "a.tsv"\nmax_rejects = "a"\n', "is no float"),
        ('[[pairs]]\nfile = "a.tsv"\nweight = 0\n', "must be above 0"),
        ('[[pairs]]\nfile = "a.tsv"\nweight = inf\n', "weight = inf"),
        ('[[pairs]]\nfile = "a.tsv"\ntenth = "Alone"\n', "tenth = 'Alone'"),
        ('[[pairs]]\nfile = "a.tsv"\nexclude = "b"\n', "exclude must be a list"),
        ("\xff", "not a readable recipe"),
        ("job = " + "[" * 9_999, "not a readable recipe"),
    ],
)
def test_a_recipe_that_cannot_be_meant_is_named(file, tmp_path, text, message):
    recipe = tmp_path / "r.toml"
    recipe.write_bytes(text.encode("latin-1"))
    with pytest.raises(ArgumentError, match=message):
        load_recipe(recipe, tmp_path)


def test_one_specification_for_all_files_or_one_for_each(file):
    both = [file, file]
    shared = TrainingFiles(pairs=both, grades=["0=1"]).sources(Recipe())
    assert [s.grades for s in shared] == ["0=1", "0=1"]
    each = TrainingFiles(pairs=both, grades=["0=1", "0=2"], columns=["grade=label", ""])
    specs = [(s.grades, s.columns) for s in each.sources(Recipe())]
    assert specs == [("0=1", "grade=label"), ("0=2", "")]


def test_bad_labels_are_rejects_and_too_many_stop(tmp_path):
    rows = [f"查询{i}\t标题\t{3 if i else '坏'}" for i in range(30)]
    path = write(tmp_path / "p.tsv", "query\ttitle\tgrade", *rows)
    read = PairSource(path).read(labelled=True, rejects_path=tmp_path / "rejects.tsv")
    assert len(read) == 29 and "bad grade" in (tmp_path / "rejects.tsv").read_text(encoding="utf-8")
    with pytest.raises(PairFileError, match="bad grade"):
        PairSource(path, grades="9=1").read(labelled=True)


def test_an_auxiliary_source_leaves_rows_without_a_label_out(tmp_path):
    path = write(tmp_path / "p.tsv", "query\ttitle\tgrade", "甲\t乙\tx", "丙\t丁\t")
    read = PairSource(path, auxiliary="other").read(labelled=True)
    assert [p.label for p in read] == ["x"]


def test_the_key_follows_the_exclude_file(file, tmp_path):
    other = write(tmp_path / "held_out.tsv", "query\ttitle", "甲\t乙")
    source = PairSource(file, exclude=(other,))
    before = source.options_key
    write(other, "query\ttitle", "丙\t乙")
    assert source.options_key != before


@pytest.mark.parametrize("table", [{"seed": "3"}, {"seed": 2.5}, {"seed": True}, {"luck": 1}])
def test_settings_of_another_type_are_refused(table):
    with pytest.raises(ArgumentError, match=next(iter(table))):
        typed(TuneSettings, table, "here")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (TuneSettings(warmup=600), "warmup is 600"),
        (TuneSettings(weight_decay=-1), "weight_decay is -1"),
        (TuneSettings(average=1), "average is 1"),
        (PretrainSettings(steps=5, shape=BatchShape(pair_share=1.0)), "pair_share"),
        (PretrainSettings(steps=5, shape=BatchShape(negative_share=-0.1)), "negative_share"),
        (PretrainSettings(steps=5, shape=BatchShape(masked_share=0.0)), "masked_share"),
    ],
)
def test_settings_that_cannot_be_meant_are_named(settings, name):
    check = check_settings if isinstance(settings, TuneSettings) else check_pretraining
    with pytest.raises(ArgumentError, match=name):
        check(settings)


def test_levels_are_read_as_the_evaluation_reads_them(file):
    pairs = PairSource(file, columns="grade=label").read(levels=3, labelled=True)
    assert [p.grades for p in pairs] == [(1,), (2,), (3,), (3,)]
    for beyond in ({"grades": "0=1,1=2,2=4"}, {"always": "3-4"}):
        with pytest.raises(ArgumentError, match="grade 4 stands for level 3, and the levels are 0"):
            PairSource(file, columns="grade=label", **beyond).read(levels=3, labelled=True)
