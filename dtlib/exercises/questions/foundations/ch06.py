"""Quick questions of chapter 6, Estimating before running."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.memory import (
    fused_layer_bytes,
    gathered_bytes,
    logit_bytes,
    model_state_bytes,
    segmented_activation_bytes,
    weight_bytes,
    zero_sent_bytes,
)

# fmt: off
_STATE = [model_state_bytes(12e9, stage, 56) for stage in range(4)]
_KEPT = 40 * fused_layer_bytes(seq=2000, micro_batch=1, hidden=5000, tp=1)
_ARITHMETIC = 2 * (12 - 8)  # what halves, by the two steps of the log
_OFF = "arithmetic" if _ARITHMETIC != 8 else "exchange"

_TERMS = {
    "the state": model_state_bytes(30e9, 3, 128),
    "the activations": 48 * fused_layer_bytes(seq=4096, micro_batch=1, hidden=7168, tp=1),
    "the logits": logit_bytes(micro_batch=1, seq=4096, vocab=32000, tp=1),
    "the gathered layers": gathered_bytes(30e9, layers=48, zero=3, element_bytes=2)}
_SHARED = [48 * fused_layer_bytes(4096, 1, 7168, tp) for tp in (1, 8)]
_SEGMENTS = {k: segmented_activation_bytes(80, k, 34, 1, 1, 1) for k in (2, 9)}
_SENT = zero_sent_bytes(30e9, zero=3, dp=128, m=8, element_bytes=2)
_ONCE = zero_sent_bytes(30e9, zero=0, dp=128, m=8, element_bytes=2)
_ALONE = 80e-3
_MEGATRON = 7e9 * (6 + 12 / 16)  # as its documentation has it

largest_of_four = question(
    "pause-largest-of-four",
    "The 30 billion parameters on 128 GPUs, stage 3, in 48 layers of width 7,168, with 32,000 "
    "words and one sequence of 4,096 tokens at a time. Which of the four terms is the largest on a "
    "rank?",
    Chosen("term", max(_TERMS, key=_TERMS.get), {
           "the state": "into how many parts does stage 3 cut its 16 bytes?",
           "the logits": "six bytes a word and token; how many of another kind has a token?",
           "the gathered layers": "how many of the 48 layers are there at once, and how many bytes "
                                  "has a parameter?"}),
    "34 bytes for each number of the width, in every layer, and stage 3 cuts none of them",
)

layers_that_eight_share = question(
    "pause-layers-that-eight-share",
    "The same model, but eight GPUs share each layer, still with one sequence of 4,096 tokens at a "
    "time. How much do the activations of a rank take then?",
    Asked("activations", _SHARED[1], "bytes", {
          _SHARED[0] / 8: "some of the 34 bytes are not divided",
          _SHARED[0] * (24 / 8) / 34: "and the bytes that every one of the eight keeps?",
          _SHARED[0] * 10 / 34: "and what is left of the other 24?"}),
    "of 34 bytes 13 are left: the ten that are not divided now outweigh the others",
)

nine_or_two = question(
    "pause-nine-or-two",
    "80 layers without stored scores, so a layer keeps 17 times as much as its input. How many "
    "times as much is kept with segments of nine layers as with segments of two?",
    Asked("factor", _SEGMENTS[9] / _SEGMENTS[2], slips={
          (80 / 9 + 9) / (80 / 2 + 2): "how much does a layer of the open segment keep?",
          9 / 2: "only one of the two terms grows with the segment",
          (80 / 9 + 34 * 9) / (80 / 2 + 34 * 2): "34 bytes are 17 times what?"}),
    "nine layers at 17 outweigh by far the 31 inputs that are saved",
)

received_in_a_step = question(
    "pause-received-in-a-step",
    "Stage 3 again: 30 billion parameters of two bytes are cut among 128 replicas, and a step has "
    "eight micro-batches. How many bytes does each GPU receive for the exchange in one step?",
    Asked("received", _SENT, "bytes", {
          _SENT / 8: "how often in a step are the weights gathered?",
          _SENT * 2 / 3: "are the weights still there when the backward pass comes?",
          _SENT / 3: "that is one of three exchanges of a micro-batch",
          _ONCE: "that is a ring that averages the gradients, once a step"}),
    f"twelve times the {_ONCE / 1e9:.0f} GB of a ring: the price of not holding the weights",
)

eight_share_a_layer = question(
    "pause-eight-share-a-layer",
    "In a ring all-reduce each of t GPUs sends 2 (t - 1)/t times the vector. Eight GPUs share a "
    "layer instead of two. How many times as many bytes does each of them send?",
    Asked("times", (7 / 8) / (1 / 2), slips={
          4: "a ring's bytes reach a limit as ranks are added",
          1: "they are near the limit at eight, and not at two",
          (1 / 2) / (7 / 8): "do more ranks send less?"}),
    "seven eighths over a half",
)

which_line_is_known = question(
    "pause-which-line-is-known",
    "The refits are the only doubt, and the run gets the tokens that each of them calls best. "
    "Which of these lines of the sheet is known worst?",
    Chosen("line", "the days of the run", {
           "the loss": "how far apart are the ends of its interval, as a factor?",
           "the time of a step": "do the five constants enter a step?",
           "the memory of a rank": "do the five constants enter a byte of it?"}),
    "days are tokens over speed, so they inherit the factor between three and four of the tokens",
)

two_doubts = question(
    "pause-two-doubts",
    "A time is a product of two numbers, each of which may be off by a factor of 2. By the rule of "
    "squares, by which factor may the time be off?",
    Asked("factor", 2 ** 2**0.5, slips={
          4.0: "that is both at their worst, in one direction",
          2.0: "two doubts are more than one",
          8**0.5: "the logarithms add as squares, not the factors"}),
    "2.7: the logarithm is the root of two times as large",
)

six_ranks_on_four_cores = question(
    "pause-six-ranks-on-four-cores",
    "On a machine with four cores, six ranks start together, each with work that takes one core 80 "
    "ms. The system divides its cores evenly among them. When are all six done?",
    Asked("time", _ALONE * max(1, 6 / 4), "s", {
          _ALONE: "has every rank a core?",
          2 * _ALONE: "do two ranks wait until a core is free, or do all share?",
          6 * _ALONE: "four cores work at the same time"}),
    "six times the work of one rank on four cores, as the simulation counts it",
)

two_counts_of_the_state = question(
    "pause-two-counts-of-the-state",
    "7 billion parameters on 16 replicas, and the optimizer is cut among them (our stage 1). By "
    "how much is the state that Megatron-LM counts for a rank larger than ours?",
    Asked("difference", _MEGATRON - model_state_bytes(7e9, zero=1, dp=16), "bytes", {
          weight_bytes(7e9, 2) / 16: "does this option cut the gradients?",
          weight_bytes(7e9, 4): "how many bytes has a gradient in our count?",
          _MEGATRON - model_state_bytes(7e9, zero=2, dp=16): "in our stage 1 gradients stay whole",
          _MEGATRON: "that is its whole state"}),
    "two bytes a parameter, for gradients in four bytes: as much as all the weights",
)

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
