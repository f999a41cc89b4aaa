"""Quick questions of chapter 22, Offloading."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB, TFLOP
from dtlib.memory import (
    hiding_bandwidth,
    hiding_lookahead,
    optimizer_intensity,
    parameter_intensity,
)

# fmt: off
_AHEAD = hiding_lookahead(computing=30, transfer=20, alpha=70)
_HIDDEN = hiding_bandwidth(300*TFLOP, optimizer_intensity(1)) / (40*GB)
_WEIGHTS = hiding_bandwidth(300*TFLOP, parameter_intensity(1)) / (40*GB)

buffers_against_latency = question(
    "ask-buffers-against-latency",
    "A layer occupies the link for 20 ms, arrives 70 ms after it has left it, and is computed for "
    "30 ms. The link moves one layer at a time, every layer is fetched anew. How many buffers does "
    "it take, at least, for 30 ms a layer in the long run?",
    Asked("buffers", _AHEAD + 1, slips={
          _AHEAD: "a buffer is held while its layer is computed, too",
          2: "a buffer is held through the latency, too"}),
    "a buffer is held for transfer, latency and arithmetic, and they take turns",
)

tokens_for_the_optimizer = question(
    "ask-tokens-for-the-optimizer",
    "A GPU does 300 TFLOP/s; its link carries 40 GB/s, both directions together. The forward pass "
    "runs twice in a step, only products with weights count. 16 bytes of state for each weight "
    "come and go once a step. From how many tokens a step on can the whole step hide them?",
    Asked("tokens", _HIDDEN, slips={
          _HIDDEN / 2: "the state is read and written",
          _HIDDEN * 8 / 6: "how often does the forward pass run?",
          _WEIGHTS: "from there on weights and gradients hide; how many bytes has the state?"}),
    "eight operations for each weight and token against its bytes, there and back",
)

line_that_races = question(
    "ask-line-that-races",
    "In this order: start to send x to the host; start to fetch z; y = x + 1; wait for z; "
    "z = z + y, in place; x = 0, in place; wait for x. Which of the three computations races with "
    "a transfer?",
    Chosen("computation", "x = 0", {
           "y = x + 1": "may what is on its way out be read?",
           "z = z + y": "is a transfer of these two still under way?",
           "none": "which transfer is waited for last, and what must not happen until then?"}),
    "what is being sent may be read, and not changed before its wait",
)
