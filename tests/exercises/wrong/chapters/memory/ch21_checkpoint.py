"""A wrong answer of chapter 21 that needs torch: (exercise, answer, what it must be told)."""

from dtlib.memory import checkpoint

WRONG = [("ex-your-own-checkpoint", checkpoint, "library's own")]
