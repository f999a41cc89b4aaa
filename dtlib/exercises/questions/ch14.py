"""Quick questions of chapter 14, Data parallelism."""

from dtlib.collectives import ring_all_reduce_sent_bytes
from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.foundations import bucketed_time, ms

# fmt: off
_SENT = ring_all_reduce_sent_bytes(2 * 7e9, 8)
_FOUR = bucketed_time(80*ms, 40*ms, 4, 0)

gradients_of_seven_billion = question(
    "ask-gradients-of-seven-billion",
    "Eight ranks train 7 billion parameters, gradients in two bytes, summed by a ring. How much "
    "does each rank send in a step?",
    Asked("sent", _SENT, "bytes", {
          _SENT / 2: "a ring has two phases",
          2 * 7e9: "a ring sends a part of the vector, in two phases"}),
    "the number of tokens is not in it",
)

uneven_ranks = question(
    "ask-uneven-ranks",
    "One rank has 100 tokens that count, the other 300. Each takes the mean of its own loss, and "
    "DDP averages the gradients. How many times its due does a token of the first rank weigh?",
    Asked("times", (1 / 2 / 100) / (1 / 400), slips={
          3: "that is against a token of the other rank",
          1: "a mean of means is not the mean"}),
    "a mean of means gives each rank the same weight, and not each token",
)

four_buckets = question(
    "ask-four-buckets",
    "A backward pass of 80 ms, its all-reduce of 40 ms in four equal buckets, starts are free. "
    "After how long is everything done?",
    Asked("time", _FOUR, "s", {
          120*ms: "that hides nothing",
          80*ms: "the last bucket is ready only when the backward pass ends"}),
    "only the last bucket sticks out",
)
