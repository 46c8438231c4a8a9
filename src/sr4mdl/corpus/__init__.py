"""Random formulas, inputs and labelled search states."""
