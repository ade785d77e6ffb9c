"""For chapters, without a promise of stability: claims checked where they are made, in words.

    check("a borrowed τ turns a digit less far than its own", own - borrowed, above=0)
    # ✓ a borrowed τ turns a digit less far than its own: 7.3, above 0

A claim that fails stops the chapter, with the number that was found. One that rests on a run which was
cut short for a trial is named and left open.
"""

import math


def check(
    claim: str,
    found: float | bool,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    digits: int = 2,
    unit: str = "",
    done: bool = True,
) -> None:
    """Print `claim` with what was found, or raise an AssertionError that says how far it is off.

    Args:
        claim: In words, as it stands in the text.
        found: A number, which has to lie between `above` and `below`, or a truth value.
        digits: After the point, of what is printed.
        unit: Of the number, such as "nats" or "°".
        done: Whether the run behind it went its whole way; if not, nothing is decided.
    """
    if not done:
        print(f"– not decided, the run was cut short: {claim}")
        return
    if isinstance(found, bool):
        if not found:
            raise AssertionError(f"This does not hold here: {claim}.")
        print(f"✓ {claim}")
        return
    if above == -math.inf and below == math.inf:
        raise ValueError("Say what the number is checked against: above=, below=, or both.")
    space = " " if unit and unit[0].isalpha() else ""
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("above", above), ("below", below))
        if math.isfinite(bound)
    ]
    told = f"{claim}: {found:.{digits}f}{space}{unit}, {' and '.join(bounds)}"
    if not above < found < below:  # not negated, so that NaN fails
        raise AssertionError(f"This does not hold here: {told} was claimed.")
    print(f"✓ {told}")
