"""Tables as lines of text: what histories, the report and the command line print."""

from collections.abc import Collection, Iterable, Sequence

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

UNFOLDED = 10_000  # a width that no line reaches


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    at_least: int = 0,
    width: int = UNFOLDED,
    markdown: bool = False,
) -> str:
    """Rows of cells under their head, in columns: those in `left` flush left, the others right.

    Columns after the first are `at_least` so wide. Lines longer than `width` are folded within their
    cells; a head without a letter is left out; an empty row is an empty line.
    """
    grid = Table(
        box=MARKDOWN if markdown else None,
        show_header=any(head),
        pad_edge=markdown,
        highlight=False,
    )
    for number, name in enumerate(head):
        justify, narrowest = "left" if number in left else "right", at_least if number else 0
        grid.add_column(name, justify=justify, min_width=narrowest, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        grid.add_row(*row)
    console = Console(
        width=width,
        force_jupyter=False,
        color_system=None,
        markup=False,
        highlight=False,
        emoji=False,
    )
    with console.capture() as captured:
        console.print(grid)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    if markdown:  # rich draws the line under the head without saying how columns are aligned
        lines = [line for line in lines if line]
        dashes = [part[1:] for part in lines[1].strip("|").split("|")]
        marks = [f":{part}" if i in left else f"{part}:" for i, part in enumerate(dashes)]
        lines[1] = f"|{'|'.join(marks)}|"
    return "\n".join(lines)
