"""Attention and the rest of a model on shares of a sequence.

`softmax_state`, `masks` and `layouts`; `attention`; `lean`; `model`; `cost`.
"""
