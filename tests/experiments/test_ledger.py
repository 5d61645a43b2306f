"""Rows as text: nothing is lost, and only an unfinished last line is left out."""

import math

import pytest

from bouncy.experiments.ledger import HEADER, Row, format_rows, parse_rows

FIRST = Row("figure1", "ours", "hmc", "ends", 10, 0.2, 0.1, 3, 1711, 0.1 + 0.2, 12345, 678, 1 / 3, 2e-17, 1 / 3)
SECOND = FIRST._replace(run=4, mse_pairs=math.nan)


def test_rows_are_read_back_to_the_last_bit():
    """Catches digits that are rounded away, and columns that change places."""
    assert parse_rows(HEADER + format_rows([FIRST, FIRST])) == [FIRST, FIRST]


def test_an_error_that_does_not_count_is_left_empty():
    """Catches a NaN written as a word, which other programs read as text."""
    line = format_rows([SECOND])
    assert "nan" not in line
    (row,) = parse_rows(HEADER + line)
    assert math.isnan(row.mse_pairs)
    assert row._replace(mse_pairs=0.0) == SECOND._replace(mse_pairs=0.0)


@pytest.mark.parametrize("cut", [1, 2, 10, 60])
def test_an_unfinished_last_line_is_left_out(cut):
    """Catches half a number taken for a whole one after a process was killed while it wrote."""
    assert parse_rows((HEADER + format_rows([FIRST, SECOND]))[:-cut]) == [FIRST]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first line is ''"),
        ("a,b\n1,2\n", "the first line is 'a,b"),
        (HEADER + "\n" + format_rows([FIRST]), "line 2 is"),
        (HEADER + format_rows([FIRST]).replace("12345", "many"), "line 2 is .*'many'"),
        (HEADER + format_rows([FIRST]) + "figure1,ours\n", "line 3 is 'figure1,ours"),
    ],
)
def test_other_damage_is_reported(text, message):
    """Catches a damaged file that is read as if it were whole, and an error that does not say where to look."""
    with pytest.raises(ValueError, match=message):
        parse_rows(text)
