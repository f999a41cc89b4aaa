"""Quick questions of chapter 17, Sequence parallelism."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB, us
from dtlib.parallelism import ring_hop_bytes

# fmt: off
_UNIT = 2.0 ** (4 - 6)  # the unit of the second state, counted in that of the first
_LONGER = ring_hop_bytes(1, 16 * 2000, 5000, 50, 50, 16, 2) / (50*GB) / (80*us)

two_states_of_a_query = question(
    "ask-two-states-of-a-query",
    "Take powers of 2 instead of e. For one query, one rank's keys give the state (m, Σ, o) = "
    "(6, 3, 12), another's (4, 4, 32); they mean the sums Σ · 2^m and o · 2^m. What is the result "
    "of attention over the keys of both?",
    Asked("result", (12 + 32 * _UNIT) / (3 + 4 * _UNIT), slips={
          (12 / 3 + 32 / 4) / 2: "each rank has a result, but do both weigh the same?",
          (12 + 32) / (3 + 4): "are the two sums counted in the same unit?",
          (12 * _UNIT + 32) / (3 * _UNIT + 4): "which of the two states has the larger unit?"}),
    "both in the larger unit, then sum over sum",
)

mirror_of_a_piece = question(
    "ask-mirror-of-a-piece",
    "A sequence is cut into 12 equal pieces, counted from 0, for 6 ranks under a causal mask. Each "
    "rank r has piece r and gets one more. Which one must rank 2 get, so that all ranks have the "
    "same work in all?",
    Asked("piece", 2 * 6 - 1 - 2, slips={
          2 + 6: "then a later rank has two later pieces, and more to do",
          2 * 6 - 2: "pieces are counted from 0: which is the last?"}),
    "an early piece with its mirror image: what the one lacks the other has",
)

tokens_that_hide_a_hop = question(
    "ask-tokens-that-hide-a-hop",
    "A rank of a ring holds 2,000 tokens, 5,000 wide, 2 bytes a number, every head with keys of "
    "its own. It sends 50 GB/s (starts are free), and a step computes for 80 µs, no mask. How many "
    "times as many tokens must each rank hold, at least, for a hop to hide behind a step?",
    Asked("times", _LONGER, slips={
          _LONGER / 2: "what travels in a hop, and in how many bytes?",
          _LONGER ** 0.5: "the hop grows with the tokens as well"}),
    "the work grows with the square of a rank's tokens, the hop with their number",
)
