"""Quick questions of chapter 13, The cost of collectives."""

from dtlib.collectives import (
    all_reduce_bus_factor,
    parameter_server_all_reduce_time,
    parameter_server_over_ring_ratio,
    ring_all_reduce_time,
)
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, MB, ms, us

# fmt: off
_SHARE = 60*GB / (160*GB / 2)
_EXPLAINED = ring_all_reduce_time(100*MB, 5, 50*us, 50*GB)
_RINGS = parameter_server_all_reduce_time(1, 12, 3, 0, 1) / ring_all_reduce_time(1, 12, 0, 1)
_OF_A_SWITCH = all_reduce_bus_factor(16) / ((16 + 1) / 16)

sixteen_on_a_switch = question(
    "pause-sixteen-on-a-switch",
    "Sixteen ranks on a switch that adds; setting up takes no time. How many times the rate of its "
    "link can the bus bandwidth of an all-reduce show at most?",
    Asked("times", _OF_A_SWITCH, slips={
          1: "for whom does the benchmark's factor count, and who adds here?",
          2: "a rank must also hand out the sum of its share",
          all_reduce_bus_factor(16): "that would be so if only the buffer passed a port"}),
    "the factor of ranks that add, 30 sixteenths, over what passes a port, 17",
)

late_by_one_message = question(
    "pause-late-by-one-message",
    "In a ring of four, rank 0's first message comes 10 ms late. Each rank waits for its left-hand "
    "neighbour only. How many of the other three ranks begin their second round late?",
    Asked("ranks", 1, slips={
          3: "that would be so if rounds were kept in step",
          0: "who has to have this message before it can go on?"}),
    "its right-hand neighbour; a round later the next one, and so on around",
)

faster_cards_same_wires = question(
    "pause-faster-cards-same-wires",
    "The same step on GPUs that compute twice as fast, in 0.51 s instead of 1.02; the 228 ms of "
    "communication stay, and nothing overlaps. Which share of the step is communication then?",
    Asked("share", 0.228 / (0.51 + 0.228), slips={
          0.228 / 0.51: "a share of the step, not of the compute",
          2 * 0.228 / (1.02 + 0.228): "does the whole step become half as long?",
          0.228 / (1.02 + 0.228): "that was before"}),
    "so faster cards alone make the network the next thing to buy",
)

who_came_last = question(
    "pause-who-came-last",
    "Five ranks log how long they were in the same all-reduce: ranks 0 to 4 took 41, 40, 12, 43 "
    "and 39 ms. Which rank came last?",
    Chosen("came last", "rank 2", {
           "rank 3": "whose clock ran longest: who waited, or who was waited for?",
           "rank 4": "it was there for almost as long as the others",
           "nobody, the network was slow": "would a slow network be fast for one rank?"}),
    "the others were waiting for it, and the call itself takes no more than 12 ms",
)

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
