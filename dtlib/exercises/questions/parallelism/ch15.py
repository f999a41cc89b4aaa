"""Quick questions of chapter 15, Tensor parallelism."""

import math

from dtlib.collectives import ring_all_reduce_sent_bytes, ring_all_reduce_time
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, TFLOP, tensor_parallel_width, us
from dtlib.parallelism import tensor_parallel_layer_bytes

# fmt: off
_FOUR, _SIXTEEN, _SLOWER = (
    tensor_parallel_width(tp, 2, 989*TFLOP, beta)
    for tp, beta in ((4, 400*GB), (16, 400*GB), (16, 100*GB)))
_GATHERED = ring_all_reduce_sent_bytes(1, 8) / 2  # one of two phases, of a stream
_GROWN = tensor_parallel_layer_bytes(1, 1, 1, 8, 1) / tensor_parallel_layer_bytes(1, 1, 1, 2, 1)
_EMBEDDED = tensor_parallel_layer_bytes(1, 4096, 8192, 8, 2) / 2
_OF_A_TOKEN = ring_all_reduce_time(2 * 4096, 8, 0, 450*GB)
_STARTS = ring_all_reduce_time(0, 8, 5*us, 450*GB)

bend_before_the_sum = question(
    "pause-bend-before-the-sum",
    "A number is the sum of 5 on rank 0 and -3 on rank 1. Each rank applies max(0, x) to its own "
    "summand, and the results are added. By how much is that too large?",
    Asked("excess", max(0, 5) + max(0, -3) - max(0, 5 - 3), slips={
          5: "that is what comes out; what should?",
          2: "that is what should come out; what does?",
          0: "what becomes of the negative summand?"}),
    "the negative summand is gone before it can take anything from the other",
)

thinner_inside = question(
    "pause-thinner-inside",
    "Columns then columns, again on eight ranks, but the inner width is 3 times the outer instead "
    "of 4. How many times n does a rank send forward?",
    Asked("times n", (3 + 1) * _GATHERED, slips={
          (4 + 1) * _GATHERED * 3 / 4: "which part of it has nothing to do with the inner width?",
          3 * _GATHERED: "and the columns of the result?",
          (3 + 1) * 2 * _GATHERED: "an all-gather has one phase"}),
    "two all-gathers: three streams at the bend, one at the end",
)

sum_of_four_ones = question(
    "pause-sum-of-four-ones",
    "Four ranks add up their summands and all have the loss, the sum itself. It is one number and "
    "counts once. Each rank starts its backward pass with 1, and the sum's backward pass is an "
    "all-reduce as well. What gradient does each rank find for its summand?",
    Asked("gradient", sum([1] * 4), slips={
          1: "that would be right; what does this program do with the ones?",
          16: "how often is anything added on the way back?",
          1 / 4: "does an all-reduce divide?"}),
    "right would be 1; where the four losses are four numbers to be added, this is right",
)

gathered_for_own_loss = question(
    "pause-gathered-for-own-loss",
    "Each rank has a piece of x. A program gathers them with gather_slices, and each rank goes on "
    "to a loss of its own; the losses count as their sum. What is wrong with the gradient of a "
    "rank's piece?",
    Chosen("the gradient", "the other ranks' terms are missing", {
           "it is P times too large": "what does own_slice send, and what does it add?",
           "it is that of another piece": "which piece does own_slice take?",
           "nothing": "who else has used this piece, and does that come back?"}),
    "the loss is partitioned, so all_gather is needed, whose transpose adds",
)

inner_product_of_a_sum = question(
    "pause-inner-product-of-a-sum",
    "A is the all-reduce of a partitioned loss: x is partial, with 3 on rank 0 and 4 on rank 1, "
    "and Ax is copies, one for each rank. y is 2 on rank 0 and 5 on rank 1. What is the inner "
    "product of Ax and y?",
    Asked("inner product", (3 + 4) * (2 + 5), slips={
          3 * 2 + 4 * 5: "what does each rank have after the all-reduce?",
          (3 + 4) * 2: "that is the product of rank 0; what becomes of that of rank 1?",
          3 + 4 + 2 + 5: "within a rank the two are multiplied"}),
    "x with the all-reduce of y gives the same, 3 times 7 and 4 times 7: it is its own transpose",
)

norm_for_clipping = question(
    "pause-norm-for-clipping",
    "On four ranks the squares of the cut matrices' gradients add up to 9, and those of the norms' "
    "weights, which every rank holds whole, to 1. To clip, each rank adds up the squares of all "
    "that it holds, an all-reduce adds these, and a root is taken. What norm does this give?",
    Asked("norm", math.sqrt(9 + 4 * 1), slips={
          math.sqrt(9 + 1): "that is the true norm; what is there more than once?",
          9 + 4 * 1: "and the root?",
          math.sqrt(4 * (9 + 1)): "is a cut matrix on every rank?"}),
    "what all ranks hold must be counted once, or every step is clipped too much",
)

from_two_to_eight = question(
    "pause-from-two-to-eight",
    "Eight ranks share a layer instead of two; all else is as it was. By what factor does that "
    "which one rank sends grow?",
    Asked("factor", _GROWN, slips={
          4: "is it in proportion to the number of ranks?",
          7: "that is the first of two places where t stands",
          1: "on two ranks, how much of the buffer does each send?"}),
    "it can never double, while the arithmetic of a rank has fallen to a quarter",
)

first_wrong_gradient = question(
    "pause-first-wrong-gradient",
    "A block without f. On the way back the gradient passes the feed-forward's down matrix, its up "
    "matrix, the norm in front of it, and then attention. Which is the first whose own gradient is "
    "wrong?",
    Chosen("first wrong", "the norm's weight", {
           "the down matrix": "what reaches it, and has the rank all of that?",
           "the up matrix": "which two factors make its gradient, and has the rank both?",
           "attention's out matrix": "what has the gradient passed before it gets there?"}),
    "between the up matrix and the norm is the place where f should have added",
)

one_column_of_two = question(
    "pause-one-column-of-two",
    "X is one number. W has two columns, 2 on rank 0 and 3 on rank 1, and the loss is the sum of "
    "both outputs. Without f, what share of the gradient of X is missing on rank 0?",
    Asked("share", 3 / (2 + 3), slips={
          2 / 5: "that is the share that is there",
          1 / 2: "are the terms of the two ranks equal?",
          0: "does rank 0 know the column of rank 1?"}),
    "on rank 1 it is the other share, so the two disagree from here on",
)

which_run_differs = question(
    "pause-which-run-differs",
    "In every step the gradients of all weights are four times too large, and their right norm is "
    "10. Which of these runs differs from the right one?",
    Chosen("the run", "plain SGD", {
           "Adam": "what becomes of its step if all gradients are multiplied by four?",
           "SGD, clipped to norm 1": "which norm has the gradient after clipping, in both runs?",
           "all three": "which of them divide by the size of the gradient?",
           "none": "which of them multiplies the gradient by a fixed number?"}),
    "only plain SGD takes steps in proportion to the gradient",
)

embedded_tokens = question(
    "pause-embedded-tokens",
    "Eight ranks share the embedding by words. One sequence of 4,096 tokens, width 8,192, two "
    "bytes to a number. How much does each rank send until all have the embedded tokens?",
    Asked("sent", _EMBEDDED, "bytes", {
          2 * 4096 * 8192: "that is the stream; a ring sends a part of it, in two phases",
          _EMBEDDED / 2: "are the ranks' results pieces or summands?",
          2 * _EMBEDDED: "how many sums does a lookup need?"}),
    "half of what a layer sends forward, although seven of the eight summands of a token are zeros",
)

mean_of_pieces = question(
    "pause-mean-of-pieces",
    "A piece of tokens has three targets with a mean loss of 2, another has one target with a loss "
    "of 6. What is the mean loss of both together?",
    Asked("loss", (3 * 2 + 1 * 6) / (3 + 1), slips={
          (2 + 6) / 2: "that is the mean of two means; how many targets has each?",
          3 * 2 + 1 * 6: "that is the sum"}),
    "sums add up and means do not, so a piece gives its sum and the count is known before",
)

tokens_of_a_piece = question(
    "pause-tokens-of-a-piece",
    "A GPU does 300 TFLOP/s and reads 2 TB/s. A piece reads the head's weights, of two bytes, and "
    "does 2 FLOP with each weight for every token. From how many tokens in a piece on does the "
    "arithmetic take as long as the reading?",
    Asked("tokens", 300*TFLOP / (2000*GB), "", {
          300*TFLOP / (2000*GB) / 2: "2 FLOP for each token, and 2 bytes",
          300*TFLOP / (2000*GB) * 2: "2 FLOP for each token, and 2 bytes"}),
    "the operations that the GPU can do for each byte that it reads",
)

as_long_to_start = question(
    "pause-as-long-to-start",
    "A ring of eight ranks, 450 GB/s and 5 µs for each message to start. The width is 4,096, with "
    "two bytes to a number. At how many tokens does a sum of the stream take as long to start as "
    "to send?",
    Asked("tokens", _STARTS / _OF_A_TOKEN, slips={
          5*us / _OF_A_TOKEN: "how many messages does a rank send, one after the other?",
          _STARTS / 2 / _OF_A_TOKEN: "a ring has two phases",
          _STARTS / (2 * 4096 / (450*GB)): "how much of the stream does a rank send?"}),
    "below that, a shorter sequence saves work and hardly any communication",
)

cuts_of_a_gate = question(
    "ask-cuts-of-a-gate",
    "A gated feed-forward block multiplies GELU(X Wgate) and X Wup number by number, then goes "
    "through Wdown. All three are to be divided, with one sum forward and no other collective. How "
    "are Wgate, Wup and Wdown cut?",
    Chosen("cuts", "columns, columns, rows", {
           "columns, rows, rows": "can columns be multiplied with a summand?",
           "columns, columns, columns": "what does the last matrix need of its input?",
           "rows, rows, columns": "is a product of sums the sum of products?"}),
    "what works number by number takes columns as they are; the way out adds",
)

where_f_is_missing = question(
    "ask-where-f-is-missing",
    "In a tensor-parallel model one f is missing. The loss is right, and so are the gradients of "
    "layer 4's feed-forward matrices and of all matrices nearer the output. Those of layer 4's "
    "attention matrices are wrong, and of all nearer the input. In front of what is f missing?",
    Chosen("in front of", "layer 4's feed-forward", {
           "layer 4's attention": "does the gradient pass these matrices before or after that f?",
           "layer 5's attention": "what lies behind that f, on the way back?"}),
    "on the way back its own matrices come before that f, everything wrong comes after it",
)

out_of_the_node = question(
    "ask-out-of-the-node",
    "Four ranks share a layer, and each sends 400 GB/s. At width 6,000 the forward sums take as "
    "long as the arithmetic. At which width is that so for 16 such ranks that send 100 GB/s each? "
    "(Starts are free, attention's scores left out.)",
    Asked("width", 6000 * _SLOWER / _FOUR, slips={
          6000 * _SIXTEEN / _FOUR: "and the link?",
          6000 * _SLOWER / _SIXTEEN: "and the number of ranks?",
          6000 * 4 * 4: "and what does a single rank have to send?"}),
    "it grows with t - 1, and as the link gets slower",
)
