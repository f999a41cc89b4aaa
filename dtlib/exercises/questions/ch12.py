"""Three quick questions at the end of chapter 12, Ring and tree algorithms."""

from dtlib.collectives import all_reduce_lower_bound_messages, ring_all_reduce_sent_bytes
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB

# fmt: off
_SENT = ring_all_reduce_sent_bytes(1*GB, 16)
_FEWEST = all_reduce_lower_bound_messages(16)

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
