"""How much of a formula's length can be read off its table; prints one JSON line.

A reader cannot tell formulas apart that give the same numbers to the digits it reads.
So formulas of the paper's distribution are cut down as far as their tables do not show
it: a part is replaced by its mean, or a function by a straight line, wherever nearly
all rows stay as they are to the given precision. What is left is the visible formula.
The error of the best guess of the length from the visible formula (its length and its
counts of operators and variables, by boosting, on formulas kept aside) is what even a
perfect reader of that precision is left with. Cutting is greedy, so a shorter visible
formula may exist and the error is, if anything, too small.
"""

import argparse
import json
import random
import sys
from collections import Counter

import numpy as np
import torch

from sr4mdl.corpus.formulas import (
    DEFAULT_CONSTANTS,
    PAPER_CONSTANTS,
    VARIABLE_NAMES,
    paper_formula,
)
from sr4mdl.evaluate import evaluate, evaluate_one
from sr4mdl.expressions import Expression, apply, constant
from sr4mdl.simplify import simplify
from sr4mdl.training.inputs import MIXTURE_ONLY, draw_inputs
from sr4mdl.training.state_computer import LARGEST_VALUE

SMALLEST_SHOWN = 0.1
"""Rows nearer to the mean than this share of the spread are read to its digits."""
SHARE_OF_ROWS = 0.95


def shorter_forms(formula, X, names):
    """Yield simplified formulas in which one part is cut down."""
    nodes = [
        node
        for node in formula.subexpressions()
        if node.variables and node is not formula
    ]
    values = evaluate([*nodes, formula], X, names).values
    for node, value in zip(nodes, values, strict=False):
        if not np.isfinite(value).all():
            continue
        replacements = [constant(float(value.mean()))]
        if node.operator is not None and node.operator.arity == 1:
            (inner,) = node.arguments
            argument = evaluate_one(inner, X, names)
            design = np.column_stack([np.ones_like(argument), argument])
            if np.isfinite(design).all():
                offset, slope = np.linalg.lstsq(design, value, rcond=None)[0]
                line = apply(
                    "add",
                    constant(float(offset)),
                    apply("mul", constant(float(slope)), inner),
                )
                replacements.append(line)
        for replacement in replacements:

            def change(part: Expression, node=node, replacement=replacement):
                return replacement if part is node else None

            yield simplify(formula.rebuild(change))


def visible(formula, X, names, precision):
    """Return the formula cut down as far as the table does not show it."""
    shown = evaluate_one(formula, X, names)
    centre, spread = shown.mean(), shown.std()
    allowed = precision * np.maximum(np.abs(shown - centre), SMALLEST_SHOWN * spread)
    while formula.operator is not None:
        forms = {
            form for form in shorter_forms(formula, X, names)
            if form.length < formula.length and form.variables
        }  # fmt: skip
        if not forms:
            break
        ordered = sorted(forms, key=lambda form: (form.length, str(form)))
        values = evaluate(ordered, X, names).values
        with np.errstate(all="ignore"):
            unseen = (np.abs(values - shown) <= allowed).mean(1) >= SHARE_OF_ROWS
        if not unseen.any():
            break
        formula = ordered[int(np.argmax(unseen))]
    return formula


def features(formula, n_variables):
    """Return what a perfect reader knows of the visible formula."""
    counts = Counter(
        node.operator.name for node in formula.prefix() if node.operator is not None
    )
    n_constants = sum(node.is_constant for node in formula.prefix())
    binary = sum(counts[name] for name in ("add", "sub", "mul", "div", "pow"))
    unary = sum(counts.values()) - binary
    return [
        n_variables, formula.length, len(formula.variables), n_constants, binary, unary,
        counts["mul"], counts["inv"], counts["sqrt"], counts["square"],
    ]  # fmt: skip


def draw_tables(n_formulas, n_rows, constants, seed):
    """Yield formulas, tables and names of columns, as the network is measured on."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    made = 0
    while made < n_formulas:
        formula = paper_formula(rng, constants=constants)
        names = VARIABLE_NAMES[: formula.n_variables]
        table = draw_inputs(generator, 1, 2 * n_rows, formula.n_variables, MIXTURE_ONLY)
        X = np.ascontiguousarray(table[0].numpy().T)
        target = evaluate_one(formula.expression, X, names)
        X = X[np.abs(target) < LARGEST_VALUE][:n_rows]
        if len(X) < n_rows // 2:
            continue
        made += 1
        yield formula, X, names


def guess_error(inputs, lengths):
    """Return the error of boosting on folds kept aside."""
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    model = GradientBoostingRegressor(
        n_estimators=150, max_depth=3, learning_rate=0.05, subsample=0.7, random_state=0
    )
    folds = KFold(10, shuffle=True, random_state=0)
    guess = cross_val_predict(model, np.array(inputs, float), lengths, cv=folds)
    return float(np.sqrt(((guess - lengths) ** 2).mean()))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000, help="formulas")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--constants", choices=PAPER_CONSTANTS, default=DEFAULT_CONSTANTS
    )
    parser.add_argument("--precision", default="5e-4,5e-3,5e-2")
    arguments = parser.parse_args()
    precisions = [float(text) for text in arguments.precision.split(",")]
    lengths = []
    known = {precision: [] for precision in precisions}
    drawn = draw_tables(
        arguments.n, arguments.rows, arguments.constants, arguments.seed
    )
    for number, (formula, X, names) in enumerate(drawn, 1):
        lengths.append(formula.expression.length)
        left = formula.expression
        # Coarser readers see no more than finer ones: go on from what those see.
        for precision in sorted(precisions):
            left = visible(left, X, names, precision)
            known[precision].append(features(left, formula.n_variables))
        if number % 50 == 0:
            sys.stderr.write(f"\r{number} of {arguments.n}")
    sys.stderr.write("\n")
    truth = np.array(lengths, float)
    columns = [row[:1] for row in known[precisions[0]]]
    result = {
        "bench": "visible_length",
        "constants": arguments.constants,
        "formulas": arguments.n,
        "rows": arguments.rows,
        "mean_length": round(float(truth.mean()), 2),
        "spread": round(float(truth.std()), 2),
        "error_by_columns_alone": round(guess_error(columns, truth), 2),
        "readers": [
            {
                "precision": precision,
                "visible_length": round(
                    float(np.mean([row[1] for row in known[precision]])), 2
                ),
                "error": round(guess_error(known[precision], truth), 2),
            }
            for precision in precisions
        ],
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
