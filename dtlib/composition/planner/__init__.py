"""Which layout for a run: every legal one, timed and filtered by memory, with reasons.

`script`, what an unmodified training script computes, sends and holds.
"""
