"""Quick questions of chapter 17, Sequence parallelism."""

from math import exp

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, ms, us
from dtlib.parallelism import ring_hop_bytes
from dtlib.parallelism.sequence.cost import (
    lean_ring_backward_bytes,
    ring_step_flops,
    ulysses_attention_bytes,
)

# fmt: off
_UNIT = 2.0 ** (4 - 6)  # the unit of the second state, counted in that of the first
_LONGER = ring_hop_bytes(1, 16 * 2000, 5000, 50, 50, 16, 2) / (50*GB) / (80*us)
_ALL_OWN = (1, 1, 1)  # as wide as one number, each head with keys of its own, counted in shares
_LEAN = lean_ring_backward_bytes(1, 4, *_ALL_OWN, 4, 1)
_ULYSSES = ulysses_attention_bytes(1, 8, 1, 8, 8, 8, 1)
_STEP = 8*ms * ring_step_flops(1, 1, 1, 2) / ring_step_flops(1, 1, 1, 1)
_HOP = 3*ms * ring_hop_bytes(1, 1, *_ALL_OWN, 2, 1) / ring_hop_bytes(1, 1, *_ALL_OWN, 1, 1)
_TILES = [(row, column) for row in range(8) for column in range(8)]
_COMPUTED = sum(column <= row for row, column in _TILES) / len(_TILES)


def _pairs(*documents):
    return sum(tokens**2 / 2 for tokens in documents)


sum_in_one_unit = question(
    "pause-sum-in-one-unit",
    "Key 1 has the score 90, key 2 the score 88. The two weights, e^90 and e^88, are added, and "
    "the sum is counted in the unit e^90. What number is it?",
    Asked("sum", 1 + exp(88 - 90), slips={
          2: "is the second weight as large as the unit?",
          1 + exp(2): "which of the two is the larger unit?",
          exp(-2): "that is the second weight; and the first?"}),
    "the weight of the largest score is one, and all others are smaller",
)

law_that_rounding_breaks = question(
    "pause-law-that-rounding-breaks",
    "The next cell tries the three laws again, with powers of e and rounding. Which of them no "
    "longer holds bit for bit?",
    Chosen("law", "associativity", {
           "identity": "by which two numbers are the sums of the two states multiplied here?",
           "commutativity": "does a sum of two numbers round differently when they change places?",
           "none": "how often is a state rounded on its way into a sum of three?"}),
    "each grouping converts to other units on the way, and rounds there",
)

mean_of_the_results = question(
    "pause-mean-of-the-results",
    "Each of four ranks has some of the keys and computes its own result, o / Σ, for one query. "
    "Somebody takes the plain mean of the four. What must be equal on all ranks for that to be "
    "right?",
    Chosen("equal", "the sums of the weights", {
           "the numbers of keys": "does a key with a low score count as much as another?",
           "the maxima": "then the units are the same; how many keys come near them?",
           "nothing": "does a rank whose keys have low scores count as much as another?"}),
    "in one unit; otherwise a rank counts in proportion to its Σ",
)

step_of_a_meeting = question(
    "pause-step-of-a-meeting",
    "A ring of eight ranks, counted from 0. Each rank r passes keys and values on to rank r + 1, "
    "the last to the first. In which step do the queries of rank 3 meet the keys of rank 6?",
    Asked("step", (3 - 6) % 8, slips={
          3: "which way do the keys travel?",
          6: "is the first step counted as 0, and what happens in it?",
          4: "in step 0 the keys are still at home"}),
    "in step t rank r has the keys of rank r - t, counted around the ring",
)

tensors_of_the_lean_ring = question(
    "pause-tensors-of-the-lean-ring",
    "Four ranks. Backward, keys and values go around the lean ring once more, and the gradients "
    "of both go with them, to end on the rank of their keys. How many tensors does a rank send?",
    Asked("tensors", _LEAN, slips={
          12: "where are the gradients after the hops that the keys make?",
          16: "after the last step, does anybody still need the keys?",
          6: "how many kinds of tensors travel?"}),
    "two tensors make three hops, and two make four",
)

shares_with_ulysses = question(
    "pause-shares-with-ulysses",
    "Eight ranks, and every head has keys of its own. A share is the keys of one rank's tokens. In "
    "one layer, forward, a rank of a ring sends 14 shares. How many does it send with Ulysses?",
    Asked("shares", _ULYSSES, slips={
          4: "does all of it leave the rank?",
          3 * 7 / 8: "what travels after attention?",
          2 * 7 / 8: "keys and values; what else must come to where the heads are?"}),
    "four things, of each of which an eighth stays: a quarter of what the ring sends",
)

twice_as_many_ranks = question(
    "pause-twice-as-many-ranks",
    "A step of a ring computes for 8 ms, and the hop beside it takes 3 ms, without any starts. Now "
    "the same sequence is shared by twice as many ranks. How long do a step and its hop, side by "
    "side, take then?",
    Asked("time", max(_STEP, _HOP), "s", {
          4*ms: "which sides of its block of scores have become shorter?",
          _HOP: "that is the hop; which of the two is longer?",
          _STEP + _HOP: "they run side by side"}),
    "a quarter of the work and half the hop: once more, and the hop would show",
)

mean_over_own_tokens = question(
    "pause-mean-over-own-tokens",
    "Each of four ranks has a quarter of the tokens. It takes the mean of the loss over its own "
    "tokens and goes backward; the gradients are summed over the ranks. How many times as large "
    "as that of one process is the result?",
    Asked("times", 4, slips={
          1: "by how many tokens does each rank divide, and by how many one process?",
          1 / 4: "is a rank's divisor too large or too small?",
          16: "each rank has only its own tokens in the sum"}),
    "so the next cell divides every rank's sum by the number of all tokens",
)

tiles_of_a_triangle = question(
    "pause-tiles-of-a-triangle",
    "A block of scores is cut into 8 × 8 tiles. Under a causal mask a tile without any pair is "
    "skipped, and a tile on the diagonal is computed whole. What share of the tiles is computed?",
    Asked("share", _COMPUTED, slips={
          1 / 2: "what is computed of a tile on the diagonal?",
          28 / 64: "the tiles on the diagonal have pairs, too",
          1 - 1 / 8: "are the tiles above the diagonal computed?"}),
    "an eighth more than the half that the equations count; smaller tiles would waste less",
)

weight_in_a_small_pack = question(
    "pause-weight-in-a-small-pack",
    "One pack has 3,000 targets, another 1,000. A loss takes the mean of each pack, and then the "
    "mean of both. How many times as much as one of the first does a token of the second weigh?",
    Asked("times", 3000 / 1000, slips={
          1: "each pack weighs a half; and how many tokens share that half?",
          1 / 3: "the half is shared by fewer in the second",
          4: "over the other pack's tokens, not over all"}),
    "each pack has a half, which 1,000 tokens share in one and 3,000 in the other",
)

pairs_of_two_packs = question(
    "pause-pairs-of-two-packs",
    "Two packs of 8,000 tokens. One has a document of 6,000 and two of 1,000, the other eight of "
    "1,000. A token sees its own document only. How many times as many pairs has the first?",
    Asked("times", _pairs(6000, 1000, 1000) / _pairs(*8 * [1000]), slips={
          1: "the tokens are as many; and the pairs?",
          36 / 8: "the first pack has two more documents",
          6: "with which power of its length do a document's pairs grow?",
          8: "that is one document of 8,000"}),
    "almost all of them come from one document",
)

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
