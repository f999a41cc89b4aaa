"""Quick questions of chapter 13, The cost of collectives."""

from dtlib.collectives import (
    all_reduce_bus_factor,
    parameter_server_all_reduce_time,
    parameter_server_over_ring_ratio,
    ring_all_reduce_time,
)
from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB, MB, ms, us

# fmt: off
_SHARE = 60*GB / (160*GB / 2)
_EXPLAINED = ring_all_reduce_time(100*MB, 5, 50*us, 50*GB)
_RINGS = parameter_server_all_reduce_time(1, 12, 3, 0, 1) / ring_all_reduce_time(1, 12, 0, 1)

share_of_a_link = question(
    "ask-share-of-a-link",
    "nccl-tests prints a busbw of 60 GB/s for a large all-reduce on 4 GPUs; no switch adds. A "
    "GPU's link is sold as 160 GB/s, both directions added up. Which share of what it can carry is "
    "used?",
    Asked("share", _SHARE, slips={
          _SHARE / 2: "busbw counts one direction",
          _SHARE * all_reduce_bus_factor(4): "busbw has the operation's factor in it already",
          _SHARE / all_reduce_bus_factor(4): "which bandwidth may stand beside a link's?"}),
    "bus bandwidth over one direction of the link, whatever the operation",
)

what_is_missing = question(
    "ask-what-is-missing",
    "A ring all-reduce of 100 MB over 5 ranks took 4.5 ms. Each step starts in 50 µs; a port "
    "carries 50 GB/s in each direction. How much of the time do starts and bytes not explain?",
    Asked("missing", 4.5*ms - _EXPLAINED, "s", {
          4.5*ms - ring_all_reduce_time(100*MB, 5, 0, 50*GB): "the starts are still in it",
          4.5*ms - _EXPLAINED / 2: "a ring has two phases",
          4.5*ms - 8 * 50*us - 100*MB / (50*GB): "the vector passes a port more than once"}),
    "what remains after steps and bytes is the launch and what a message waits for",
)

three_servers = question(
    "ask-three-servers",
    "Of 12 ranks, 3 are servers as well, each for a third of the vector. All pushes come before "
    "all pulls, a port carries as much out as in, starts are free. How many times as long as a "
    "ring over all 12 does this all-reduce take?",
    Asked("times", _RINGS, slips={
          12: "that is a single server",
          _RINGS / 2: "a sum can be handed out only when the last push has come in",
          parameter_server_over_ring_ratio(12, 3): "does a server send its own part to itself?"}),
    "ranks for each server: only where every rank is one does it cost no more than a ring",
)
