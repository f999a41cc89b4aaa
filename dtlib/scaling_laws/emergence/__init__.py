"""Jumps, and whether they are in the model or in the ruler that it is measured with.

`rulers`, what metrics make of a smooth loss; `answers`, questions to the grid's models that have
one answer; `grokking` and `induction`, two jumps that no ruler makes; `stairs`, steps that are in
the order of the data; `broken`, power laws that bend, and what points say of a bend.
"""
