"""Asynchrony: `two_level`, optimizers that meet every H steps; `scaffold`, one that is corrected.

`fixed_point`, where local steps end.
"""
