"""Pairs of a query and a title: reading and checking files of them, grades, tokens, words."""

from qt_bert.pairs.check import check_file
from qt_bert.pairs.grades import GRADE_NAMES, GRADES, GradeMap, GradeSet, LevelMap
from qt_bert.pairs.options import ReaderOptions
from qt_bert.pairs.pair import Pair
from qt_bert.pairs.reader import PairReader, read_pairs
from qt_bert.pairs.segmenters import segmenter
from qt_bert.pairs.tokenise import PairTokenizer

__all__ = [
    "GRADES",
    "GRADE_NAMES",
    "GradeMap",
    "GradeSet",
    "LevelMap",
    "Pair",
    "PairReader",
    "PairTokenizer",
    "ReaderOptions",
    "check_file",
    "read_pairs",
    "segmenter",
]
