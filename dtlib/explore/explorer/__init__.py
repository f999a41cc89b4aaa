"""Formulas as curves over one variable: `explorer`."""
