"""Quick questions of chapter 12, Ring and tree algorithms."""

from dtlib.collectives import (
    all_reduce_lower_bound_messages,
    ring_all_reduce_rounds,
    ring_all_reduce_sent_bytes,
    tree_all_reduce_sent_bytes,
)
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, MB

# fmt: off
_SENT = ring_all_reduce_sent_bytes(1*GB, 16)
_FEWEST = all_reduce_lower_bound_messages(16)
_ROOT = tree_all_reduce_sent_bytes(4*MB, 4)
_MESSAGES = 8 * ring_all_reduce_rounds(8) / all_reduce_lower_bound_messages(8)

sent_by_the_root = question(
    "pause-sent-by-the-root",
    "Four ranks, a vector of 4 MB, two children for the root of the tree. The root adds up, and "
    "then hands the sum down. How much does it send?",
    Asked("sent", _ROOT, "bytes", {
          ring_all_reduce_sent_bytes(4*MB, 4): "a ring cuts the vector up, a tree does not",
          4*MB: "each of its children gets the sum"}),
    "the whole vector to each child: the ring's ranks send less, and all of them the same",
)

messages_of_eight = question(
    "pause-messages-of-eight",
    "Eight ranks of one computer sum a few bytes. How many times as many messages does the ring "
    "send as the tree, both phases counted?",
    Asked("ratio", _MESSAGES, slips={
          4: "that was on four ranks, or one phase of two",
          _MESSAGES - 1: "in a round of the ring everybody sends"}),
    "in the tree a message for each edge and phase, in the ring one for each rank and round",
)

ports_of_a_ring = question(
    "pause-ports-of-a-ring",
    "Four nodes of eight GPUs, each GPU with a network port of its own. One ring visits the GPUs "
    "of a node one after the other, then goes on to the next node. Through which share of the 32 "
    "ports does it send?",
    Asked("share", sum(rank // 8 != (rank + 1) % 32 // 8 for rank in range(32)) / 32, slips={
          1: "does every GPU send to another node?",
          1 / 32: "how often on its way around does it leave a node?",
          1 / 4: "that is how many nodes there are, against how many ports?"}),
    "which is why a library runs several rings at once, each through other ports",
)

which_ran = question(
    "pause-which-ran",
    "You time an all-reduce of 8 bytes: 100 µs on 32 ranks, 118 µs on 64. No log was kept. Which "
    "algorithm ran?",
    Chosen("algorithm", "tree", {"ring": "twice its rounds, and twice the time?"}),
    "one level more, not twice the rounds",
)

sent_by_sixteen = question(
    "ask-sent-by-sixteen",
    "A ring all-reduce of 1 GB over 16 ranks. How much does each of them send?",
    Asked("sent", _SENT, "bytes", {
          _SENT / 2: "that is one phase of two",
          1*GB: "a rank sends chunks, in two phases"}),
    "a chunk in every round of both phases: nearly twice the vector, never more",
)

fewest_for_sixteen = question(
    "ask-fewest-for-sixteen",
    "One number on each of 16 ranks. How many messages must be sent, at least, until every rank "
    "has the sum?",
    Asked("messages", _FEWEST, slips={
          _FEWEST / 2: "with so many one rank can have it; and the others?",
          16 * 15: "nobody has to hear from everybody directly"}),
    "the others must be heard, and must hear",
)

short_vector = question(
    "ask-short-vector",
    "A vector of 8 bytes on 1,024 ranks, one port each. Which all-reduce is faster?",
    Chosen("algorithm", "tree", {
           "ring": "what does the ring pay for in each of its 2(P - 1) rounds?",
           "both alike": "count the rounds, each of them has a start"}),
    "few bytes: the fewest rounds win",
)
