"""Quick questions of chapter 22, Offloading."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, TB, TFLOP, catalog, ms
from dtlib.memory import (
    hiding_bandwidth,
    hiding_lookahead,
    model_state_bytes,
    optimizer_intensity,
    parameter_intensity,
    recipes,
    streamed_layer_time,
)

# fmt: off
_FORWARD, _BACKWARD, _LINK = 10*ms, 20*ms, 32*GB
_BETWEEN = 3 * (_FORWARD + _BACKWARD)  # layers 1 to 3, there and back

_MOMENTS = recipes["32-bit"].moments * 1e6  # of a million parameters
_NODE = 8 * catalog["h100-sxm"].hbm_bytes + 2 * catalog["ddr5-socket"].capacity
_GRADIENTS_GONE = model_state_bytes(1, 0, 1) - 2  # bytes of a parameter
_EXPONENT = 2.5  # bits
_SHARD = 2 * 7e9 / 16

_AHEAD = hiding_lookahead(computing=30, transfer=20, alpha=70)
_HIDDEN = hiding_bandwidth(300*TFLOP, optimizer_intensity(1)) / (40*GB)
_WEIGHTS = hiding_bandwidth(300*TFLOP, parameter_intensity(1)) / (40*GB)

weights_that_come_back = question(
    "pause-weights-that-come-back",
    "Four layers, each with a forward pass of 10 ms and a backward pass of 20 ms. The weights of "
    "layer 0 are on the host, too, so the GPU drops them after its forward pass. How many bytes "
    "may they have to come back in time for its backward pass, over a free link of 32 GB/s?",
    Asked("weights", _LINK * _BETWEEN, "bytes", {
          _LINK * (_BETWEEN + _BACKWARD): "they must be there when its backward pass begins",
          _LINK * (_BETWEEN + _FORWARD): "its own forward pass is over",
          _LINK * 3 * _FORWARD: "which passes come between its forward and its backward pass?"}),
    "six passes lie between, so layer 0 has the longest time of all four",
)

two_buffers_with_jitter = question(
    "pause-two-buffers-with-jitter",
    "Every layer needs 5 ms of arithmetic; its transfer takes 1 ms or 8 ms, at random, each half "
    "of the time. With two buffers, how long does a layer take on average?",
    Asked("layer", (max(5*ms, 1*ms) + max(5*ms, 8*ms)) / 2, "s", {
          5*ms: "on average the lane is fast enough; what does a long transfer cost?",
          8*ms: "is every transfer a long one?",
          5*ms + (1*ms + 8*ms) / 2: "that is with one buffer"}),
    "half of the layers wait for a long transfer, and a short one gains nothing for the next",
)

moments_that_cross = question(
    "pause-moments-that-cross",
    "A model with a million parameters is trained in 32 bits. Only the moments of AdamW live on "
    "the host, and the update runs on the GPU. How many bytes cross the link in a step, both "
    "directions together?",
    Asked("crossing", 2 * _MOMENTS, "bytes", {
          2 * (_MOMENTS + 4e6): "in 32 bits, does a weight need a master copy?",
          _MOMENTS + 4e6: "the moments come and go, and the gradient stays"}),
    "two moments of 4 bytes, and the update changes both",
)

update_on_the_way_back = question(
    "pause-update-on-the-way-back",
    "The weights of 32 layers are on the host. Suppose that each layer is updated as soon as its "
    "own backward pass is done, while it is still on the GPU. How many fetches does the first step "
    "need?",
    Asked("fetches", 32 + 31, slips={
          3 * 32 - 2: "which of the three passes needs no fetch any more?",
          2 * 32: "which layer is still there when the pass turns around?",
          32: "are all layers still there for the backward pass?"}),
    "a third fewer; but clipping by the norm of everything needs all gradients before any update",
)

memory_not_pinned = question(
    "pause-memory-not-pinned",
    "A layer spends 40 ms on the link, and computing it takes 50 ms. There are two buffers, but "
    "the host's memory is not pinned. How long does a layer take?",
    Asked("layer", streamed_layer_time(50*ms, 40*ms, 0, lookahead=0), "s", {
          streamed_layer_time(50*ms, 40*ms, 0, lookahead=1): "may this copy run beside arithmetic?",
          40*ms: "the layer must be computed, too"}),
    "one after the other, as if there were one buffer",
)

copy_on_another_stream = question(
    "pause-copy-on-another-stream",
    "A GPU is busy. The host launches the kernel that computes a gradient, starts to copy the "
    "gradient's memory on another stream, waits for that copy, and reads it. What may it read?",
    Chosen("reads", "what was there before", {
           "always the gradient": "has a kernel run when it has been launched?",
           "nothing, it gets an error": "who compares the two streams?",
           "always zeros": "who would have cleared that memory?"}),
    "the wait was for the copy, and nobody made the copy wait for the kernel",
)

gradients_used_up = question(
    "pause-gradients-used-up",
    "Eight GPUs of 80 GiB and a host of 2 TiB. Gradients are used up as they come, so a parameter "
    "needs room for its 16-bit weight and for the optimizer's 12 bytes. For how many billion "
    "parameters is there room, if nothing else needs any?",
    Asked("billions", _NODE / _GRADIENTS_GONE / 1e9, slips={
          _NODE / model_state_bytes(1, 0, 1) / 1e9: "that is with the gradients",
          _NODE / 12e9: "the weights need a place, too",
          (640*GB + 2*TB) / _GRADIENTS_GONE / 1e9: "are these decimal prefixes?"}),
    "and in practice fewer, since activations and buffers need room as well",
)

packed_half_precision = question(
    "pause-packed-half-precision",
    "An fp16 number has a sign, 5 bits of exponent and 10 of mantissa. In noise the sign and the "
    "mantissa cannot be packed, and the exponent needs 2.5 bits on average. By what factor do the "
    "bytes shrink, at most?",
    Asked("factor", 16 / (1 + 10 + _EXPONENT), slips={
          16 / _EXPONENT: "the sign and the mantissa travel as well",
          16 / (1 + 7 + _EXPONENT): "that is bf16",
          5 / _EXPONENT: "that is the exponent by itself",
          16 / (10 + _EXPONENT): "a sign has one bit"}),
    "most of an fp16 number is mantissa",
)

shards_over_the_link = question(
    "pause-shards-over-the-link",
    "7 billion parameters are fully sharded over 16 GPUs, and the shards live on the host, where "
    "the optimizer runs. Weights and gradients have 2 bytes, weights are gathered for each pass, "
    "and there is one micro-batch. How many bytes cross one GPU's link, both directions together?",
    Asked("crossing", (2 + 1) * _SHARD, "bytes", {
          2 * _SHARD: "what goes back to the host?",
          4 * _SHARD: "when do the new weights have to be on the GPU?",
          3 * 16 * _SHARD: "what comes over this link, and what over the GPUs' own?"}),
    "a shard of weights for each pass, and a shard of reduced gradients back",
)

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
