"""Judges of what an answer returns, for the laws of declarations: arrays."""
