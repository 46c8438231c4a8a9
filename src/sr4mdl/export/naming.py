"""How variables are typeset: as mathematicians write them, unless that is ambiguous."""

from collections import Counter
from collections.abc import Callable, Iterable

EULER = "e"
"""A variable of this name looks like the base of the exponential function."""
_LOOKS_LIKE_A_NUMBER = frozenset({"pi"})


def typeset_names(
    names: Iterable[str],
    typeset: Callable[[str], str],
    plain: Callable[[str], str],
) -> dict[str, str]:
    """Return what stands for each name; no two look the same.

    Parameters
    ----------
    names : iterable of str
        All names of a formula.
    typeset : callable
        Writes a name with indices and Greek letters.
    plain : callable
        Writes it letter by letter: names that would look alike, or like a number.
    """
    shown = {name: typeset(name) for name in names}
    counts = Counter(shown.values())
    return {
        name: plain(name) if counts[text] > 1 or name in _LOOKS_LIKE_A_NUMBER else text
        for name, text in shown.items()
    }
