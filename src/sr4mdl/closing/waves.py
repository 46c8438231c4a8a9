"""A sine and a cosine of the same angle, written as one wave.

``a*cos(u) + b*sin(u)`` is ``r*cos(u - f)``: two constants either way, but amplitude and
phase are often plain numbers where the two coefficients are not.
"""

import math
from collections.abc import Sequence

from sr4mdl.expressions import Expression, apply

Term = tuple[float, Expression]
"""A coefficient and what it multiplies."""


def amplitude_and_phase(cosine: float, sine: float) -> tuple[float, float]:
    """Return r and f of ``cosine*cos(u) + sine*sin(u) = r*cos(u - f)``, |f| <= pi/2.

    Examples
    --------
    >>> amplitude_and_phase(0.0, 2.0) == (2.0, math.pi / 2)
    True
    """
    size, phase = math.hypot(cosine, sine), math.atan2(sine, cosine)
    return within_half_turn(size, phase)


def within_half_turn(size: float, phase: float) -> tuple[float, float]:
    """Return the same wave with its phase within a quarter turn of 0.

    Half a turn changes the sign.
    """
    phase = math.remainder(phase, 2.0 * math.pi)
    if abs(phase) <= 0.5 * math.pi:
        return size, phase
    return -size, phase - math.copysign(math.pi, phase)


def merged_waves(terms: Sequence[Term]) -> list[list[Term]]:
    """Return the terms with one sine and cosine merged, as a cosine and as a sine.

    Nothing if no two of them have one angle, and one factor where they have any.
    """
    places: dict[tuple[Expression | None, Expression], dict[str, int]] = {}
    for place, (_, term) in enumerate(terms):
        split = _split(term)
        if split is not None:
            name, factor, angle = split
            places.setdefault((factor, angle), {})[name] = place
    for (factor, angle), found in places.items():
        if len(found) < 2:
            continue
        rest = [one for n, one in enumerate(terms) if n not in found.values()]
        first, second = terms[found["cos"]][0], terms[found["sin"]][0]
        size, phase = amplitude_and_phase(first, second)
        waves = [
            ("cos", size, phase),
            ("sin", *within_half_turn(size, phase - 0.5 * math.pi)),
        ]
        return [
            [*rest, (size, _wave(name, factor, angle, phase))]
            for name, size, phase in waves
        ]
    return []


def _split(term: Expression) -> tuple[str, Expression | None, Expression] | None:
    """Return function, factor and angle of a wave; None if it is none."""
    name = "" if term.operator is None else term.operator.name
    if name in ("sin", "cos"):
        return name, None, term.arguments[0]
    if name == "mul":
        first, second = term.arguments
        for wave, factor in ((second, first), (first, second)):
            inside = "" if wave.operator is None else wave.operator.name
            if inside in ("sin", "cos"):
                return inside, factor, wave.arguments[0]
    return None


def _wave(
    name: str, factor: Expression | None, angle: Expression, phase: float
) -> Expression:
    wave = apply(name, apply("sub", angle, phase))
    return wave if factor is None else apply("mul", factor, wave)
