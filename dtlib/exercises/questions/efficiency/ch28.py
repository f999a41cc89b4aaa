"""Quick questions of chapter 28, Gradient compression."""

from dtlib.efficiency import gathered_over_dense_ratio, paying_bandwidth, sparse_border_ranks
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question

# fmt: off
when_it_is_sent = question(
    "pause-when-it-is-sent",
    "A gradient has two numbers, 10 and 1, and is the same in every step. Of each step one number "
    "is sent, with feedback. In which step, the first being step 1, is the second number sent "
    "for the first time? (Where both are equal the first goes.)",
    Asked("step", 11, slips={
          10: "in step 10 both are 10, and the first goes",
          2: "what is left out of step 1 is 1, against a new 10",
          9: "the memory of the second number grows by 1 a step"}),
    "its memory grows until it is the largest, and then all of it is sent at once",
)

a_constant_of_signs = question(
    "pause-a-constant-of-signs",
    "A gradient has one number of size 9 and nine of size 1. Which share of its square do signs "
    "keep, with the mean size as their scale?",
    Asked("share", 18**2 / (10 * 90), slips={
          1 - 18**2 / (10 * 90): "that is what is lost",
          18 / 90: "the sum of sizes counts squared, over ten numbers",
          1: "all numbers get one size, the mean"}),
    "(9 + 9)^2 / (10 * (81 + 9))",
)

who_may_be_added = question(
    "pause-who-may-be-added",
    "Two ranks keep the largest of two numbers each: of (3, 1) and of (-3, 1). Their messages "
    "are added. The sum of the gradients is (0, 2). What is the largest number that arrives?",
    Asked("largest", 0, slips={2: "neither rank has sent its 1", 1: "neither rank has sent its 1",
                               3: "3 and -3 are both sent, and added"}),
    "both send what cancels, and nothing of the sum arrives",
)

a_border_in_halves = question(
    "pause-a-border-in-halves",
    "Numbers in 2 bytes, places in 4, and one number in a thousand is kept. Beyond how many ranks "
    "does gathering send more than a dense all-reduce of 2-byte numbers?",
    Asked("ranks", sparse_border_ranks(0.001, 2, 4), slips={
          1000: "that is for places as long as their numbers",
          2000: "places are sent, too"}),
    "a place costs twice its number here",
)

twice_the_ranks = question(
    "ask-twice-the-ranks",
    "A thousandth of the numbers is kept, numbers and places have 4 bytes. How many times the "
    "bytes of the dense ring do 4,000 ranks send when they gather?",
    Asked("times", gathered_over_dense_ratio(4000, 0.001, 4, 4), slips={
          0.002: "that is the message of one rank; each passes on all the others'",
          8: "the dense ring sends nearly twice the gradient"}),
    "P times the share",
)

pays_or_not = question(
    "ask-pays-or-not",
    "Coding takes 20 ms in a step and saves 90 MB. Up to which bandwidth does it pay?",
    Asked("bandwidth", paying_bandwidth(dense_sent=100e6, sent=10e6, coding=0.02), "bytes/s", {
          90e6 * 0.02: "bytes over seconds", 20e-3 / 90e6: "bytes over seconds"}),
    "the bytes that are saved, over the time that saving them takes",
)

what_is_wrong_with_v = question(
    "ask-what-is-wrong-with-v",
    "Ranks run Adam on gradients that have been rounded to signs, with feedback. Which of its "
    "moments is wrong in the long run?",
    Chosen("moment", "second", {
           "first": "what is left out comes later, and the first moment is linear",
           "both": "the first is linear: what is left out comes later",
           "neither": "feedback repairs sums of gradients, not sums of their squares"}),
    "feedback repairs what is linear in the gradient",
)
