"""Quick questions of chapter 6, Estimating before running."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.memory import fused_layer_bytes, model_state_bytes

# fmt: off
_STATE = [model_state_bytes(12e9, stage, 56) for stage in range(4)]
_KEPT = 40 * fused_layer_bytes(seq=2000, micro_batch=1, hidden=5000, tp=1)
_ARITHMETIC = 2 * (12 - 8)  # what halves, by the two steps of the log
_OFF = "arithmetic" if _ARITHMETIC != 8 else "exchange"

memory_of_a_rank = question(
    "ask-memory-of-a-rank",
    "40 layers of width 5,000 have 12 billion parameters, trained with Adam in mixed precision. 56 "
    "replicas cut gradients and optimizer (stage 2); each works on one sequence of 2,000 tokens "
    "and keeps 34 bytes for each token, layer and number of the width. How much do state and "
    "activations take on a rank?",
    Asked("memory", _STATE[2] + _KEPT, "bytes", {
          _STATE[2]: "and what does the forward pass leave behind?",
          _STATE[1] + _KEPT: "the gradients are cut, too",
          _STATE[3] + _KEPT: "the weights stay whole"}),
    "two bytes stay whole, fourteen are cut, and no stage cuts the activations",
)

exponent_of_the_bandwidth = question(
    "ask-exponent-of-the-bandwidth",
    "A step is 6 s of products, 3 s of all-reduce and 1 s of gaps, one after the other. Which "
    "exponent does the bandwidth of the network have in it? Neglect latency.",
    Asked("exponent", -3 / (6 + 3 + 1), slips={
          3 / 10: "does more bandwidth make the step longer?",
          -1: "that is in its own line; which share of the step is that line?",
          -6 / 10: "that is the share of the products: what do they hang on?"}),
    "the share of its line, with a sign: doubling it cannot save more than that line",
)

line_that_is_off = question(
    "ask-line-that-is-off",
    "One batch, nothing overlaps. For 128 GPUs a sheet says 8 s of arithmetic and 1 s of exchange "
    "in a step; for 256 it says 4 s and 1 s. The log says 12 s on 128 and 8 s on 256. The "
    "arithmetic halves and the exchange does not change, as in the sheet. Which line is off?",
    Chosen("line", _OFF, {
           "arithmetic": "what does the log save when the GPUs double, and what does the sheet?",
           "both": "two steps of the log are enough to find each of the two lines"}),
    "the arithmetic saves what it should; what does not shrink is too short in the sheet",
)
