"""Quick questions of chapter 2, The roofline with a network."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.foundations import (
    GB,
    TFLOP,
    backward_hiding_tokens,
    data_parallel_bytes,
    data_parallel_tokens,
    headroom,
    matmul_intensity,
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
