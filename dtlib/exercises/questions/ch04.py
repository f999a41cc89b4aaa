"""Quick questions of chapter 4, The α–β model."""

from dtlib.collectives import ring_all_reduce_time
from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB, MB, half_performance_bytes, message_time, us

# fmt: off
_ALPHA, _BETA = 5 * us, 50 * GB
_START = ring_all_reduce_time(n=0, P=64, alpha=_ALPHA, beta=_BETA)

one_message = question(
    "ask-one-message",
    "A message of 1 MB crosses a link that starts in 5 µs and carries 50 GB/s. How long does it "
    "take?",
    Asked("time", message_time(1*MB, _ALPHA, _BETA), "s", {
          1*MB / _BETA: "that is the bytes without the start",
          _ALPHA: "that is the start alone"}),
    "the start, then the bytes",
)

half_of_the_bandwidth = question(
    "ask-half-of-the-bandwidth",
    "On this link, at which size does a message reach half of the bandwidth?",
    Asked("size", half_performance_bytes(_ALPHA, _BETA), "bytes", {
          half_performance_bytes(_ALPHA, _BETA) / 2: "there the start takes longer"}),
    "where the start takes as long as the bytes",
)

starts_of_a_ring = question(
    "ask-starts-of-a-ring",
    "A ring all-reduce over 64 ranks, each link as above. How long do its starts take, before a "
    "byte is counted?",
    Asked("starts", _START, "s", {
          _START / 2: "that is one phase of two",
          _START / 126: "how many messages does a rank send one after the other?"}),
    "a start in every round of both phases",
)
