"""Tables as lines of text."""

from tvae import text

HEAD, ROWS = ["name", "d", "note"], [["A", "25", "[b] as it is"], [], ["VAE+", "1,000", "–"]]


def test_columns_are_aligned_and_nothing_trails():
    assert text.table(HEAD, ROWS, left=(0, 2)).splitlines() == [
        "name      d  note",
        "A        25  [b] as it is",
        "",
        "VAE+  1,000  –",
    ]


def test_columns_after_the_first_can_be_wider_and_a_head_without_words_is_left_out():
    assert text.table(["", ""], [["a", "b"]], left=(), at_least=4) == "a     b"


def test_long_cells_are_folded_only_where_a_width_is_given():
    long = [["a", "one two three"]]
    assert text.table(["", ""], long, left=(0, 1), width=10).splitlines() == [
        "a  one two",
        "   three",
    ]
    assert text.table(["", ""], [["a", "x" * 5000]]) == "a  " + "x" * 5000


def test_markdown_says_how_columns_are_aligned():
    assert text.table(["a", "b"], [["x", "1.25"]], markdown=True).splitlines() == [
        "| a |    b |",
        "|:--|-----:|",
        "| x | 1.25 |",
    ]
