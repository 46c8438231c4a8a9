"""Why this formula: an outcome in plain words."""

from collections.abc import Iterator
from typing import Final

from sr4mdl.regressor.outcomes import Constant, LeftOver, Outcome

_REASONS = {
    "max_time": "the time was up",
    "max_nodes": "the number of search states was reached",
    "max_evaluations": "the number of readouts was reached",
    "exact": "the formula is exact and its constants are plain",
    "noise floor": "what is left looks like noise",
    "exhausted": "there was nothing left to try",
    "constant target": "the target is constant",
    "interrupted": "it was interrupted",
    "unfinished": "it was cut off; this is the last checkpoint",
}


_LEFT_OVER: Final[dict[LeftOver, str]] = {
    "nothing": "it leaves nothing but round-off",
    "noise": "what it leaves cannot be told from noise",
    "structure": "what it leaves is not noise: there is more to the law than this",
}


def explain(outcome: Outcome) -> str:
    """Return the outcome as text of several lines."""
    return "\n".join(_lines(outcome))


def describe_constant(constant: Constant) -> str:
    """Return a number with its standard error, as in ``9.81 +- 0.02``."""
    shown = constant.text
    if shown != f"{constant.value:g}" and not _is_number(shown):
        shown = f"{shown} = {constant.value:.6g}"
    if constant.standard_error is None:
        return f"{shown} (the data do not tell how sure it is)"
    return f"{shown} +- {constant.standard_error:.2g}"


def describe_reason(reason: str) -> str:
    """Return a stop reason in words."""
    return _REASONS.get(reason, reason)


def describe_left_over(outcome: Outcome) -> str | None:
    """Return in words what the chosen formula leaves; None where nobody can tell."""
    return _LEFT_OVER.get(outcome.left_over)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _lines(outcome: Outcome) -> Iterator[str]:
    best = outcome.chosen
    yield f"{outcome.target} = {best.formula}"
    yield ""
    yield f"R2 {best.r2:.6g}, error {best.error:.6g} on {outcome.n_rows} rows"
    if best.validation_error is not None:
        yield (
            f"error on {outcome.n_validation} held-out rows {best.validation_error:.6g}"
        )
    yield (
        f"{best.bits:.1f} bits: {best.formula_bits:.1f} for the formula "
        f"({best.length} symbols), {best.residual_bits:.1f} for what it leaves"
    )
    if (left_over := describe_left_over(outcome)) is not None:
        yield left_over
    if outcome.runner_up is None:
        yield "runner-up: none, no formula of another shape was found"
    else:
        rival = outcome.equations[outcome.runner_up]
        gap = outcome.gap_bits
        assert gap is not None
        yield (
            f"runner-up: {rival.formula} with {rival.bits:.1f} bits, {gap:.1f} more"
            + (" (a close call: more data may turn it)" if gap < 10.0 else "")
        )
    for constant in outcome.constants:
        yield f"constant: {describe_constant(constant)}"
    used = [name for name in outcome.ranges if name in best.expression.variables]
    for name in used:
        low, high = outcome.ranges[name]
        yield f"seen for {name} from {low:.6g} to {high:.6g}"
    unused = [name for name in outcome.ranges if name not in used]
    if unused:
        yield f"not used: {', '.join(unused)}"
    low, high = outcome.target_range
    yield f"{outcome.target} from {low:.6g} to {high:.6g}"
    yield (
        f"the search ended after {outcome.seconds:.1f} s: "
        f"{describe_reason(outcome.stop_reason)}"
    )
    for note in outcome.notes:
        yield f"note: {note}"
