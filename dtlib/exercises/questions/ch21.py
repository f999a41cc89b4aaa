"""Quick questions of chapter 21, Recomputing activations."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB
from dtlib.memory import segment_peak_bytes

# fmt: off
_LENGTHS = [k for k in range(1, 25) if 24 % k == 0]
_HELD = {k: segment_peak_bytes(24, k, state_bytes=0.1*GB, layer_bytes=1.5*GB) for k in _LENGTHS}
_LONGEST = max(k for k in _LENGTHS if _HELD[k] <= 10*GB)
_LEAST = min(_LENGTHS, key=_HELD.__getitem__)

what_may_change_meanwhile = question(
    "ask-what-may-change-meanwhile",
    "A segment with dropout has run forward, only its input was kept, and it runs again later. In "
    "between one thing changes, and nobody sets it back. After which change are the segment's "
    "gradients still those of the plain run?",
    Chosen("change", "weights of later layers, gone back already", {
           "the segment's own weights": "which network would the tape belong to?",
           "the kept input": "what does the repeat start from?",
           "the state of the random generator": "which numbers does dropout draw again?"}),
    "the tape is a function of input, weights and random numbers of the segment, nothing else",
)

repeated_within_ten_gigabytes = question(
    "ask-repeated-within-ten-gigabytes",
    "24 equal layers: a state takes 0.1 GB, a layer keeps 1.5 GB, its input included. Equal "
    "segments, the last taped at once, may hold 10 GB and shall repeat as little as possible. By "
    "which share does a step's work grow (backward is twice forward)?",
    Asked("share", (1 - _LONGEST / 24) / 3, slips={
          (1 - _LEAST / 24) / 3: "these hold least; the limit is wider",
          1 - _LONGEST / 24: "that is a share of the forward pass",
          1 / 3: "is the last segment repeated?"}),
    "the longest segments that fit; the last one is not repeated",
)

worth_of_a_kept_byte = question(
    "ask-worth-of-a-kept-byte",
    "A layer is 6,144 wide, its heads are 128 wide, the sequence has 4,096 tokens; numbers of 2 "
    "bytes. How many times as much work does a kept byte of the queries (input times weights) "
    "spare as a kept byte of the scores (queries times keys)?",
    Asked("times", (2 * 6144 / 2) / (2 * 128 / 2), slips={
          1: "over how many terms does each of the two products sum?",
          6144 / 4096: "for each byte that is kept, not for all of them together",
          128 / 6144: "which of the two products sums over more terms?"}),
    "two operations for each term of the sum: the longer sum is worth its bytes",
)
