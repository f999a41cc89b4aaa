"""Quick questions of chapter 2, The roofline with a network."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import (
    GB,
    TFLOP,
    backward_hiding_tokens,
    catalog,
    data_parallel_bytes,
    data_parallel_tokens,
    headroom,
    matmul_intensity,
    overlapped_time,
    pipeline_parallel_intensity,
    tile_count,
    training_flops,
    wave_count,
    wave_efficiency,
)

# fmt: off
_MANY = {"P": 16, "element_bytes": 2, "peak": 800 * TFLOP, "beta": 100 * GB}
_TOKENS = backward_hiding_tokens(**_MANY)
_PORTS = 15*GB / (0.600 - 0.450) / (50*GB)
_ROOM = {
    "arithmetic": 1,
    "memory": headroom(400*TFLOP / (1200*GB), 1000*TFLOP, 4000*GB),
    "network": headroom(400*TFLOP / (25*GB), 1000*TFLOP, 50*GB),
}
_CUBE = matmul_intensity(tokens_per_rank=6000, hidden=6000, ffn=6000, element_bytes=2)
_MORE_BYTES = data_parallel_bytes(50*10**9, 256, 2) / data_parallel_bytes(5*10**9, 256, 2)
_MORE_WORK = 50*10**9 / (5*10**9)
_IN_TURN, _AT_ONCE = (overlapped_time(0.100, 0.398, share) for share in (0, 1))
_RIDGE = catalog["h100-sxm"].peak("bf16") / catalog["ib-ndr400"].beta
_STAGE = headroom(pipeline_parallel_intensity(80, 8192, 8, 2), _RIDGE, 1)
_ON_CORES = data_parallel_tokens(P=2, element_bytes=4, peak=97e9, beta=1.38*GB)
_TILES = tile_count(1536, 1536, 128, 128)
_FROZEN_WORK = (training_flops(1, 1) - 2) / training_flops(1, 1)

overlap_of_the_first_planner = question(
    "pause-overlap-of-the-first-planner",
    "A step computes for 100 ms and sends for 398 ms, one after the other. Then somebody makes the "
    "two overlap perfectly. How many times as fast is the step?",
    Asked("times", _IN_TURN / _AT_ONCE, slips={
          2: "that needs two times of which kind?",
          0.498 / 0.100: "can the step end before everything is sent?",
          0.398 / 0.100: "compare the step before with the step after",
          _AT_ONCE / _IN_TURN: "that is what is left of its time"}),
    "only the shorter of the two can disappear, and it is a fifth of the sum",
)

slope_of_another_resource = question(
    "pause-slope-of-another-resource",
    "A step does 582 operations for each byte of memory that it moves, and 4,965 for each byte "
    "that it sends. The ridge of the memory is 295 operations for each byte, that of the ports is "
    "2,472. For what does the arithmetic wait?",
    Chosen("waits for", "neither", {
           "the ports": "which of the two intensities belongs beside 2,472?",
           "the memory": "is its intensity above its ridge or below?",
           "both": "set each intensity beside the ridge of its own resource"}),
    "both intensities are above the ridges of their own resources",
)

intensity_of_a_cube = question(
    "pause-intensity-of-a-cube",
    "6,000 tokens, a width of 6,000, and as many outputs: a cube. Numbers have 2 bytes. How many "
    "operations for each byte?",
    Asked("intensity", _CUBE, slips={
          3 * _CUBE: "three faces are moved",
          _CUBE / 2: "a multiplication and an addition",
          2 * _CUBE: "a number has two bytes"}),
    "a third of the edge for each number, times two operations, over two bytes",
)

ten_times_the_parameters = question(
    "pause-ten-times-the-parameters",
    "A GPU gets 20,000 tokens in a step, and the all-reduce takes half as long as the arithmetic. "
    "Now the model gets ten times as many parameters. How many times as many tokens must the GPU "
    "get, so that it is half as long again?",
    Asked("factor", _MORE_BYTES / _MORE_WORK, slips={
          10: "that would be right if the arithmetic did not grow",
          0.1: "what else has the parameters in it?"}),
    "bytes and work grow together",
)

lower_half_frozen = question(
    "pause-lower-half-frozen",
    "The lower half of a model is frozen. Nothing is sent for its layers, and the backward pass "
    "stops above them. How many times as many tokens must a GPU get as before, so that the "
    "all-reduce takes the same share of the arithmetic?",
    Asked("factor", 0.5 / _FROZEN_WORK, slips={
          0.5: "what do the frozen layers still compute?",
          1: "do the bytes and the work shrink by the same factor?",
          0.5 / (_FROZEN_WORK + 1 / 6): "is any gradient needed below the upper half?",
          _FROZEN_WORK / 0.5: "is there more to hide behind for each byte, or less?"}),
    "half of the bytes, but two thirds of the work: here the model does not cancel",
)

headroom_of_a_stage = question(
    "pause-headroom-of-a-stage",
    "A stage of a pipeline has 10 layers of width 8,192, each with 12 times the square of the "
    "width in weights. For each token it sends one vector of the width forward and one back, two "
    "bytes a number. The ridge of its one port is 19,780 operations for each byte. What is its "
    "headroom?",
    Asked("headroom", _STAGE, slips={
          _STAGE / 10: "that is one layer; what else happens between two messages?",
          _STAGE / 3: "the backward pass computes, too",
          2 * _STAGE: "two bytes a number, and two vectors",
          _STAGE * 2 / 3: "the forward pass computes, too",
          _RIDGE * _STAGE: "that is the intensity"}),
    "depth times width is left, which is far more than even one port asks for",
)

tokens_on_two_cores = question(
    "pause-tokens-on-two-cores",
    "Each of two processes computes 97 GFLOP/s at its peak, and their all-reduce gets 1.38 GB/s. "
    "Gradients have 4 bytes a number. For how many tokens on each do the arithmetic of the whole "
    "step and the all-reduce take equally long, by the peak rate?",
    Asked("tokens", _ON_CORES, slips={
          2 * _ON_CORES: "of two ranks, how much of the gradient does each send?",
          1.5 * _ON_CORES: "how many operations in all does a token cost for each parameter?",
          3 * _ON_CORES: "the backward pass computes, too",
          _ON_CORES / 2: "four bytes a number, not two"}),
    "the size of the matrix is not needed; now see whether the peak rate was the right one",
)

second_wave = question(
    "pause-second-wave",
    "An H100 has 132 multiprocessors, and each computes one tile of 128 x 128 numbers at a time. A "
    "product has 1,536 x 1,536 numbers. What share of the machine's time is used?",
    Asked("share", wave_efficiency(_TILES, 132), slips={
          132 / _TILES: "how long does the second wave take, however few its tiles?",
          _TILES / 132: "how many waves are there?",
          0.5: "the second wave has more than one tile",
          (_TILES - 132) / 132: "that is the second wave alone"}),
    f"{_TILES} tiles in {wave_count(_TILES, 132)} waves, the second one nearly empty",
)

headroom_of_real_rates = question(
    "pause-headroom-of-real-rates",
    "From the peak of the arithmetic and the line rate of the ports, a headroom of 1.5 was "
    "computed. The products reach 40 % of the peak, the all-reduce 80 % of the line rate. What is "
    "the headroom?",
    Asked("headroom", 1.5 * 0.8 / 0.4, slips={
          1.5 * 0.4 / 0.8: "does slow arithmetic leave the network more time or less?",
          1.5 * 0.4 * 0.8: "does slow arithmetic leave the network more time or less?",
          1.5 / 0.4: "the network is slower than planned, too",
          1.5 / 0.4 / 0.8: "does a slow network have more headroom or less?"}),
    "slow arithmetic is good for the headroom and bad for the run",
)

what_binds_a_step = question(
    "ask-what-binds-a-step",
    "A GPU computes 1,000 TFLOP/s, its memory moves 4 TB/s, and it sends 50 GB/s. In a step it "
    "does 400 TFLOP, moves 1.2 TB through the memory and sends 25 GB, all at the same time. What "
    "sets the pace?",
    Chosen("pace", min(_ROOM, key=_ROOM.get), {
           "memory": "its intensity is the lower one, and so is its ridge",
           "arithmetic": "how long does each of the three take on its own?"}),
    "each intensity against its own ridge: the larger one is the one that falls short",
)

tokens_to_hide_behind = question(
    "ask-tokens-to-hide-behind",
    "16 ranks train a dense model at 800 TFLOP/s each. A ring sums the gradients, two bytes each, "
    "and gets 100 GB/s from each rank to the next. How many tokens must a rank have in a step, so "
    "that the all-reduce takes as long as the backward pass? Neglect latency.",
    Asked("tokens", _TOKENS, slips={
          data_parallel_tokens(**_MANY): "no gradient is there yet in the forward pass",
          _TOKENS / 2: "a ring has two phases",
          800*TFLOP / (100*GB): "which part of the sum does a rank not send?"}),
    "the size of the model cancels, the tokens stay",
)

ports_in_use = question(
    "ask-ports-in-use",
    "A step takes 600 ms, and 450 ms without its all-reduce; nothing overlaps. Each GPU sends 15 "
    "GB, in rings in which the eight GPUs of a node sit side by side. A port sends 50 GB/s. How "
    "many of a node's eight ports are in use?",
    Asked("ports", _PORTS, slips={
          _PORTS * 8: "in a ring, how many GPUs of a node send out of it?",
          _PORTS / 4: "most of the step is arithmetic",
          _PORTS / 3: "that is the time without the all-reduce"}),
    "the exposed time says what the rings got, and that ports are missing",
)
