"""Quick questions of chapter 4, The α–β model."""

from dtlib.collectives import ring_all_reduce_time
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import (
    GB,
    KB,
    MB,
    catalog,
    chunked_time,
    half_performance_bytes,
    message_time,
    ms,
    pipelined_chain_best_chunks,
    us,
)

# fmt: off
_ALPHA, _BETA = 5 * us, 50 * GB
_START = ring_all_reduce_time(n=0, P=64, alpha=_ALPHA, beta=_BETA)

_FIVE = chunked_time(100*KB, 5, 3 * us, 50*GB)
_BOTH_WAYS = 10*MB / (0.5 * ms) / catalog["ib-hdr200"].beta
_PIECES = {h: pipelined_chain_best_chunks(1*GB, h, 2 * us, 50*GB) for h in (8, 29)}
_LATER = message_time(0, 10 * us, 50*GB) - message_time(0, 2 * us, 10*GB)

five_messages_as_one = question(
    "pause-five-messages-as-one",
    "Five messages of 1, 4, 10, 25 and 60 KB cross one link, one after another. Each starts in 3 "
    "µs, and the link carries 50 GB/s. How much time is saved if they are sent as one?",
    Asked("saved", _FIVE - message_time(100*KB, 3 * us, 50*GB), "s", {
          5 * 3 * us: "the one message has a start, too",
          _FIVE: "that is what the five take",
          2 * 3 * us: "how many of the five starts are still needed?"}),
    "four starts; how the bytes are divided does not matter",
)

both_ways_at_once = question(
    "pause-both-ways-at-once",
    "Two ranks, each with a port of 200 Gb/s, send each other 10 MB at the same time. Both "
    "messages are there after 0.5 ms. Which share of its bandwidth has a port used?",
    Asked("share", _BOTH_WAYS, slips={
          2 * _BOTH_WAYS: "how many of the 20 MB travel in one direction?",
          _BOTH_WAYS / 2: "is a port of InfiniBand sold by one direction or by both?"}),
    "20 of 25 GB/s, in each direction, as if the other message were not there",
)

a_longer_chain = question(
    "pause-a-longer-chain",
    "The chain grows from 8 links to 29; the gigabyte, the start and the bandwidth stay. How many "
    "times as many pieces are now best?",
    Asked("factor", _PIECES[29] / _PIECES[8], slips={
          29 / 8: "the count of links stands under a root",
          (29 - 1) / (8 - 1): "what is done with this ratio in the formula?",
          (29 / 8)**0.5: "how many pieces are best for a single link?"}),
    "28 links instead of 7 would be idle, four times as many: so twice the pieces",
)

only_small_messages = question(
    "pause-only-small-messages",
    "Somebody keeps only the sizes up to 10 KB, and fits a line to these. Which of its two numbers "
    "can be trusted?",
    Chosen("trusted", "the latency", {
           "the bandwidth": "which share of the time of a small message do its bytes take?",
           "both": "by how much does the time grow from 8 B to 10 KB?",
           "neither": "what does the time of a message of 8 B consist of?"}),
    "left of the knee bytes are almost free, so their price cannot be seen in these times",
)

from_one_protocol_to_the_next = question(
    "pause-from-one-protocol-to-the-next",
    "A library has two protocols: one starts in 2 µs and carries 10 GB/s, the other starts in 10 "
    "µs and carries 50 GB/s. From which message size on is the second faster?",
    Asked("size", _LATER / (1 / (10*GB) - 1 / (50*GB)), "bytes", {
          _LATER * 10*GB: "the bytes of the second take time, too",
          _LATER * 40*GB: "what does each byte save, in seconds?",
          10 * us * 50*GB: "that is the knee of the second line alone"}),
    "there both take 12 µs: eight more for the start, eight less for the bytes",
)

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
