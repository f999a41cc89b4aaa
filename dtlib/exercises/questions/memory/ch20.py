"""Quick questions of chapter 20, Sharding the training state."""

from math import ceil, hypot

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.memory import (
    held_gradient_bytes,
    held_optimizer_bytes,
    held_weight_bytes,
    model_state_bytes,
    owner_sent_bytes,
    sharded_sent_bytes,
    zero_sent_bytes,
)

# fmt: off
_MANY = 10**9  # ranks


def _added(*gradients: float) -> float:
    total = 0.0
    for gradient in gradients:
        total += gradient
        total = 2 * round(total / 2) if total >= 256 else total  # what bf16 has there
    return total


def _held(stage: int, ranks: int) -> float:
    """Bytes that a rank holds of a parameter in 32 bits, with two moments."""
    return (held_weight_bytes(1, 4, stage, ranks) + held_gradient_bytes(1, 4, stage, ranks)
            + held_optimizer_bytes(1, 8, stage, ranks))


def _sent(gathers: int, scatters: int, element_bytes: int = 2) -> float:
    """Bytes that a rank sends for each parameter, among very many."""
    return sharded_sent_bytes(1, gathers, scatters, _MANY, element_bytes)


_LARGE_FIRST, _LARGE_LAST = _added(256, 0.8, 0.8, 0.8), _added(0.8, 0.8, 0.8, 256)
_TWO_OF_16, _THREE_OF_4, _THREE_OF_16 = (
    zero_sent_bytes(1, stage, _MANY, m, 2) for stage, m in ((2, 16), (3, 4), (3, 16)))
_MIXED = _sent(2, 0) + _sent(0, 1, element_bytes=4)
_GATHERED, _OWNED = sharded_sent_bytes(8, 1, 0, 8, 2), owner_sent_bytes(8, 1, 8, 2)
_SENT = [zero_sent_bytes(8e9, stage, 16, 1, 2) for stage in range(4)]
_HELD = model_state_bytes(8e9, zero=3, dp=16)

update_that_looks_sideways = question(
    "pause-update-that-looks-sideways",
    "Rank 0 has weight 0 with its gradient and state, rank 1 has weight 1 with its own. Which of "
    "these updates can they not do apart?",
    Chosen("update", "the gradient divided by its norm", {
           "Adam with weight decay": "does the decay of one weight read the other?",
           "SGD with momentum": "does the momentum of one weight read the other's gradient?",
           "the sign of the gradient": "whose sign decides about weight 0?"}),
    "the norm has both gradients in it, so neither rank can compute it alone",
)

large_gradient_last = question(
    "pause-large-gradient-last",
    "Four ranks have gradients of 256, 0.8, 0.8 and 0.8 for one weight. They are added one by one "
    "in bf16, whose numbers from 256 to 512 are 2 apart. By how much is the sum larger if 256 "
    "comes last instead of first?",
    Asked("larger", _LARGE_LAST - _LARGE_FIRST, slips={
          0: "is 256.8 one of these numbers? And what are three small ones together?",
          2.4: "both sums are numbers of bf16; how far apart are these?",
          0.8: "both sums are numbers of bf16; how far apart are these?"}),
    "256 swallows one small number at a time; three of them together are seen",
)

release_left_out = question(
    "pause-release-left-out",
    "Of the four hooks of stage 3, take away the release after the forward pass and the gather "
    "before the backward pass. How many bytes does a rank send for each parameter, with 2 bytes a "
    "number, one micro-batch and very many ranks?",
    Asked("sent", _sent(1, 1), "bytes", {
          _sent(2, 1): "which gathers are left?",
          3: "how many bytes has a gather of everything, and how many a scatter?"}),
    "what data parallelism sends; the price is that every weight is there when the pass turns",
)

gradient_of_a_tied_matrix = question(
    "pause-gradient-of-a-tied-matrix",
    "A head multiplies by the embedding's matrix, so that one matrix is used first and last. When "
    "is its gradient complete?",
    Chosen("complete", "after the embedding's backward pass", {
           "after the head's backward pass": "is the matrix used once more on the way back?",
           "after the loss": "which passes add to the gradient?",
           "halfway through the backward pass": "which two uses add to it, and which is last on "
                                                "the way back?"}),
    "the backward pass begins with the head and ends with the embedding",
)

held_without_a_master_copy = question(
    "pause-held-without-a-master-copy",
    "In 32 bits a parameter has 4 bytes of weight, 4 of gradient and 8 of moments. How many of the "
    "16 does one of four ranks hold in stage 2, before the update?",
    Asked("held", _held(2, 4), "bytes", {
          _held(1, 4): "in stage 2 the gradients are cut as well",
          _held(2, 4) - 1: "a part of the gradients is held, too",
          _held(3, 4): "which of the three stays whole in stage 2?"}),
    "the whole weight, and a quarter of the rest",
)

larger_micro_batches = question(
    "pause-larger-micro-batches",
    "A run in stage 2 needs 16 micro-batches for a step. In stage 3 there is room for larger ones, "
    "so that 4 are enough. How many bytes less does a rank send for each parameter, with 2 bytes a "
    "number and very many ranks?",
    Asked("less", _TWO_OF_16 - _THREE_OF_4, "bytes", {
          _THREE_OF_4: "that is what stage 3 sends",
          _THREE_OF_16 - _TWO_OF_16: "how many micro-batches does stage 3 have?",
          _TWO_OF_16 - 2 - _THREE_OF_4: "stage 2 gathers the new weights, too"}),
    "the higher stage sends less here, because it needs fewer passes",
)

calls_under_a_pipeline = question(
    "pause-calls-under-a-pipeline",
    "Four micro-batches and three units in a stage. What is gathered stays until the end of the "
    "step, and gradients are reduced once. How many gathers and scatters does a rank call in a "
    "step, both together?",
    Asked("calls", 3 * (1 + 1), slips={
          3 * (1 + 4): "how often are gradients reduced?",
          3 * 4 * (2 + 1): "what does the second micro-batch find when it comes to a unit?",
          3 * (2 + 1): "what does the backward pass find when it comes to a unit?"}),
    "one of each for a unit, whatever the number of micro-batches",
)

ranks_with_whole_rows = question(
    "pause-ranks-with-whole-rows",
    "A matrix has 3 rows, and 4 columns for each rank. Its numbers lie row after row; a part is a "
    "flat tensor of 12 of them, divided by its own norm. On how many ranks is that what dividing "
    "each row by its norm gives, on 1, 2, 3 or 4?",
    Chosen("ranks", 3, {
           1: "whose norm does a flat part of all three rows take?",
           2: "how long is a row on two ranks, and how long is a part?",
           4: "how long is a row on four ranks, and how long is a part?"}),
    "a row has four numbers for each rank, a part always twelve",
)

two_rows_as_one = question(
    "pause-two-rows-as-one",
    "A flat part has two rows of a gradient, 3 and 4, then 6 and 8. Each row should be divided by "
    "its own norm, and the part is divided by the norm of all four numbers. How large is the "
    "update of the first row, as a share of the right one?",
    Asked("share", hypot(3, 4) / hypot(3, 4, 6, 8), slips={
          1 / 2: "are the two rows equally long?",
          1 / 3: "do norms add, or their squares?",
          hypot(6, 8) / hypot(3, 4, 6, 8): "that is the second row",
          hypot(3, 4, 6, 8) / hypot(3, 4): "is it divided by too much or too little?"}),
    "and the second row gets twice as much: which rows share a part depends on the number of ranks",
)

zeros_for_whole_blocks = question(
    "pause-zeros-for-whole-blocks",
    "An optimizer has one scale for each block of 256 numbers. A flat tensor of 100,000 numbers is "
    "cut into 8 equal parts, each of whole blocks. How many zeros must pad it, at least?",
    Asked("zeros", 8 * 256 * ceil(100_000 / (8 * 256)) - 100_000, slips={
          0: "does 256 divide a part?",
          256 * ceil(100_000 / 256) - 100_000: "so all together has whole blocks; and each part?",
          256 * 8 - 100_000 % 256: "which multiple must the whole length be?"}),
    "the whole length is a multiple of 8 times 256",
)

rows_at_right_angles = question(
    "pause-rows-at-right-angles",
    "A matrix has the rows (3, 4) and (x, -6), and each row lies on a rank of its own. For which x "
    "may the ranks orthogonalise apart?",
    Asked("x", 4 * 6 / 3, slips={
          -4.5: "parallel rows are the worst case; they must be orthogonal",
          -8: "3 x - 24 must be zero",
          0: "then their product is -24"}),
    "3 x - 24 = 0: the rows must be orthogonal already",
)

bytes_of_owners = question(
    "pause-bytes-of-owners",
    "Eight ranks own equal shares of the matrices. How many times as many bytes does a rank send "
    "when everybody gathers everything as when rows go to owners and come back?",
    Asked("times", _GATHERED / _OWNED, slips={
          8: "the new rows come back: that is a second transfer",
          2: "rows go to one rank, not to all seven others",
          1: "rows go to one rank, not to all seven others",
          0.25: "upside down"}),
    "a gather makes eight copies of everything; owners move everything twice, once each way",
)

longest_first_of_five = question(
    "pause-longest-first-of-five",
    "Five matrices take 3, 3, 2, 2 and 2 ms. Two ranks get them longest first, the next for the "
    "rank that has least to do. How many ms does the busier one work?",
    Asked("ms", 3 + 2 + 2, slips={
          6: "both threes on one rank would be better; do they come to one?",
          5: "one matrix is left when both have five",
          8: "the third two finds both at five"}),
    "3 and 3, then 2 and 2, and the last two on top: 7, where 6 would be best",
)

norm_of_own_part = question(
    "pause-norm-of-own-part",
    "A gradient lies in four parts, with norms of 1, 2, 3 and 4, and its norm may be 1 at most. By "
    "mistake each rank clips its part by that part's own norm. What is the norm of the whole then?",
    Asked("norm", hypot(1, 1, 1, 1), slips={
          1: "that is the norm of each part",
          4: "do norms add up, or what does?",
          hypot(1, 2, 3, 4): "that is the norm before clipping"}),
    "still too long, and no part is larger than another any more",
)

one_rank_skips = question(
    "pause-one-rank-skips",
    "Stage 2 on eight ranks: after the reduce-scatter one part holds an infinity. The rank that "
    "has it leaves out the rest of its step; the others look at their own parts, and see nothing. "
    "What happens next?",
    Chosen("next", "seven ranks wait forever", {
           "seven eighths of the weights are new": "how does a new part reach the others, and who "
                                                   "must take part?",
           "every weight becomes infinite": "whose weights would the infinity have changed?",
           "all ranks skip the step": "how would the seven know?"}),
    "the gather of the new weights needs all eight",
)

ranks_for_a_long_sequence = question(
    "pause-ranks-for-a-long-sequence",
    "One sequence leaves activations of 85 GB on a GPU of 80 GB. The model has 8 billion "
    "parameters, everything cut in stage 3. From how many ranks on does a step with one sequence a "
    "rank fit?",
    Chosen("ranks", "it never fits", {
           "2": "does a second rank take a part of the first one's activations?",
           "8": "what do eight ranks divide among them?",
           "it depends on the parameters": "without a single parameter, would it fit?"}),
    "more ranks bring more sequences, and each keeps its own",
)

reduced_in_32_bits = question(
    "pause-reduced-in-32-bits",
    "Full sharding, with weights gathered in 16 bits for each pass, gradients reduced in 32. How "
    "many bytes does a rank send for each parameter, with one micro-batch and very many ranks?",
    Asked("sent", _MIXED, "bytes", {
          _sent(2, 1): "in how many bits are the gradients reduced?",
          _sent(2, 1, element_bytes=4): "in how many bits are the weights gathered?",
          _sent(1, 0) + _sent(0, 1, element_bytes=4): "in how many passes is a weight gathered?"}),
    "half of it is the scatter, a third more than with 16 bits throughout",
)

held_in_stage_three = question(
    "ask-held-in-stage-three",
    "8 billion parameters in mixed precision on 16 ranks, everything cut (stage 3). How much state "
    "does a rank hold?",
    Asked("held", _HELD, "bytes", {
          model_state_bytes(8e9, 0, 16): "that is all of it",
          model_state_bytes(8e9, 2, 16): "in stage 3 the weights are cut as well",
          model_state_bytes(8e9, 1, 16): "in stage 3 weights and gradients are cut as well"}),
    "a sixteenth of sixteen bytes: one byte for each parameter",
)

price_of_stage_three = question(
    "ask-price-of-stage-three",
    "One forward and one backward pass in a step. How many times as many bytes does a rank send "
    "in stage 3 as in stage 2?",
    Asked("times", _SENT[3] / _SENT[2], slips={
          2: "the sum of the gradients is scattered once, the weights are gathered twice",
          3: "and what does stage 2 send?"}),
    "the weights are gathered once more",
)

price_of_stage_two = question(
    "ask-price-of-stage-two",
    "The same step: how many times as many bytes does a rank send in stage 2 as without any "
    "sharding?",
    Asked("times", _SENT[2] / _SENT[0], slips={
          0.5: "the updated weights must come back to everybody",
          1.5: "that is stage 3"}),
    "an all-reduce is a reduce-scatter and an all-gather, with the update between them",
)
