"""Quick questions of chapter 15, Tensor parallelism."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB, TFLOP, tensor_parallel_width

# fmt: off
_FOUR, _SIXTEEN, _SLOWER = (
    tensor_parallel_width(tp, 2, 989*TFLOP, beta)
    for tp, beta in ((4, 400*GB), (16, 400*GB), (16, 100*GB)))

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
