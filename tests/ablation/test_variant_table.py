from pathlib import Path

import pytest
import torch

from qt_bert.ablation.families import layers, random_sets, single
from qt_bert.ablation.folder import read_variants, write_variants
from qt_bert.ablation.interventions import NONE, MeanZ, Variant
from qt_bert.ablation.masks import HeadMask, Reference, SegmentBlock, zeroed
from qt_bert.ablation.request import interventions_with
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.heads import Head, Shape

SHAPE = Shape(4, 5)
MEANS = MeanZ("ab12", torch.zeros(4, 5, 2))
part_of = interventions_with(Reference(lambda: MEANS, lambda: pytest.fail("no donors")))
HEADER = "name,family,mode,heads,draw,seed\n"


def file_of(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "variants.csv"


def test_the_file_as_it_is_written(path):
    both = Variant("both", (HeadMask((Head(0, 1),)), SegmentBlock((Head(2, 0),))), "set")
    drawn = Variant("random:k2#07", (HeadMask((Head(3, 4), Head(0, 0))),), "random", 7, 0)
    write_variants(path, [*single(Shape(1, 1), zeroed), drawn, both])
    assert path.read_bytes().decode() == (
        "name,family,mode,heads,draw,seed\n"
        "none,,,,,\n"
        "L0H0,single,zero,L0H0,,\n"
        "random:k2#07,random,zero,L0H0 L3H4,7,0\n"
        "both,set,zero+block,L0H1 L2H0,,\n"
    )


def test_what_is_written_comes_back(path):
    variants = [
        *single(SHAPE, zeroed),
        *random_sets(SHAPE, lambda heads: part_of("uniform", tuple(heads)), 5, 3, seed=9),
        *layers(SHAPE, lambda heads: SegmentBlock(tuple(heads))),
        Variant('词, "边"', (part_of("mean", (Head(1, 1),)),), "set"),
    ][1:]
    write_variants(path, [NONE, *variants][::-1])
    assert read_variants(path, SHAPE, part_of) == variants[::-1]


@pytest.mark.parametrize("name", ["a\nb", "a\rb", " a", ""])
def test_a_name_that_would_not_come_back_is_not_written(path, name):
    with pytest.raises(ArgumentError, match="one line, no spaces around it"):
        write_variants(path, [Variant(name, (HeadMask((Head(0, 0),)),))])
    assert not path.exists()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_made_by_hand_or_a_spreadsheet(path, encoding, end):
    rows = ['"L2H1, L0H3", 匹配 , "",zero,,', ",,,,,", "L1H0,none2,set,uniform,3,5"]
    text = end.join(["", "heads, name ,family,mode,draw,seed", *rows])
    assert read_variants(file_of(path, text, encoding), SHAPE, part_of) == [
        Variant("匹配", (HeadMask((Head(0, 3), Head(2, 1))),)),
        Variant("none2", (HeadMask((Head(1, 0),), "uniform"),), "set", 3, 5),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,set,zero,L0H0,,\nb,set,zero,L4H0,,", "line 3: there is no head L4H0"),
        ("a,set,zero,L0H0 head,,", "line 2: 'head' is no head"),
        ("a,set,zero,,,", "line 2: no head is named"),
        ("a,set,,L0H0,,", "line 2: the mode is empty"),
        ("a,set,zeros,L0H0,,", "line 2: mode 'zeros': choose from zero, uniform, mean"),
        ("a,set,zero+block,L0H0,,", "line 2: the mode 'zero\\+block' combines two changes"),
        (",set,zero,L0H0,,", "line 2: the variant has no name"),
        ("a,,zero,L0H0,,\n\na,,zero,L0H1,,", "line 4: the name 'a' stands in line 2 already"),
        ("none,,zero,L0H0,,", "line 2: `none` is the plain model"),
        ("a,set,zero,L0H0,-1,", "line 2: draw is '-1'"),
        ("a,set,zero,L0H0,1,1.0", "line 2: seed is '1.0'"),
        ("a,set,zero,L0H0,," + "9" * 5_000, "line 2: seed is"),
        ("a,set,zero,L0H0,," + "9" * 19, "line 2: seed is .* at most 18 digits"),
        ("a,set,zero,L0H0,", "line 2: 5 fields under a header of 6"),
        ('"a,set,zero,L0H0,,\nb,set,zero,L0H1,,"', "line 2: not a line of CSV"),
        ("none,,,,,", "holds no variant but `none`"),
        ("", "holds no variant but `none`"),
    ],
)
def test_an_invalid_line_is_refused(path, rows, message):
    with pytest.raises(ArgumentError, match=f"variants.csv.*{message}"):
        read_variants(file_of(path, HEADER + rows), SHAPE, part_of)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("L2H1 L3H7", "line 1: the header is L2H1 L3H7; it must be name,family,mode"),
        ("Name,family,mode,heads,draw,seed", "line 1: the header is Name"),
    ],
)
def test_another_header_is_refused(path, text, message):
    with pytest.raises(ArgumentError, match=f"variants.csv: {message}"):
        read_variants(file_of(path, text), SHAPE, part_of)


def test_a_line_that_is_no_text_is_refused(path):
    path.write_bytes(f"{HEADER}匹配,set,zero,L0H0,,\n".encode() + b"\xff,set,zero,L0H1,,\n")
    with pytest.raises(PairFileError, match="variants.csv: line 3: undecodable bytes"):
        read_variants(path, SHAPE, part_of)
