"""Quick questions of chapter 28, Gradient compression."""

from dtlib.efficiency import (
    gathered_over_dense_ratio,
    levels_variance_bound,
    low_rank_fraction,
    paying_bandwidth,
)
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, ms

# fmt: off
what_is_owed = question(
    "pause-what-is-owed",
    "In four steps a number has the gradients 2, 5, 1 and 3. A rank with a memory has sent 4 for "
    "it in the second step and 3 in the fourth, and else nothing. How much does it still owe?",
    Asked("owed", (2 + 5 + 1 + 3) - (4 + 3), slips={
          11: "what has been sent is no longer owed", 7: "that is what has been sent",
          0: "a step may send a part of what is due"}),
    "the sum of what was due, less the sum of what was sent, whatever chose when",
)

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

a_thousand_alike = question(
    "pause-a-thousand-alike",
    "A thousand ranks have the same gradient. Each keeps its largest 1 %, without a memory, and "
    "the mean of all is taken. How large is the error of the mean?",
    Chosen("error", "as on one rank", {
           "a thousandth": "all ranks leave out the same numbers",
           "zero": "who has sent the small numbers?"}),
    "what is wrong in the same way everywhere does not average out",
)

which_of_two_bounds = question(
    "pause-which-of-two-bounds",
    "Numbers are rounded to 4 levels, with a norm for each 100. How large may omega be at most?",
    Asked("omega", levels_variance_bound(100, 4), slips={
          100 / 4**2: "both bounds hold, so the smaller does", 100 / 4: "one of the two is squared",
          10 / 16: "the root goes with the levels themselves"}),
    "10/4 and not 100/16: with so few levels for a long bucket the root is the smaller",
)

noise_and_more = question(
    "pause-noise-and-more",
    "The noise of a rank's gradient has three times the square of the true gradient, and omega "
    "is a half. How many times its own size can the variance of the mean be after compression?",
    Asked("times", 1 + 0.5 * (1 + 1 / 3), slips={
          1.5: "the true gradient is rounded, too", 3: "which of the two squares is the larger?",
          0.5 * (1 + 1 / 3): "the noise that was there is still there"}),
    "(3 + (3 + 1) / 2) / 3, on however many ranks",
)

eight_alike = question(
    "pause-eight-alike",
    "Now all eight ranks have the same gradient, and each rounds it with draws of its own, with "
    "an omega of 1.6. How large is the variance of the mean, in squares of the gradient?",
    Asked("variance", 1.6 / 8, slips={
          1.6: "each rank draws its own numbers, so errors average out",
          2.6: "that is for noise; here nothing but the rounding varies",
          1.6 / 8**2: "the variance of a mean of eight is an eighth",
          0: "each message is rounded, and eight are not infinitely many"}),
    "omega / 8: a common gradient gains from more ranks, and noise of one's own does not",
)

as_long_as_it_stays = question(
    "pause-as-long-as-it-stays",
    "A compressor keeps at least 36 % of the square of any vector. How many times as long as the "
    "longest gradient can its memory become, by the fixed point of the second step?",
    Asked("times", 0.8 / (1 - 0.8), slips={
          0.64 / 0.36: "a length is no square: q is a root",
          (4 * 0.64) ** 0.5 / 0.36: "that is the wider bound without the root",
          1 / (1 - 0.8): "that is what is owed before something is sent"}),
    "q = sqrt(1 - 0.36) = 0.8, and 0.8 / 0.2",
)

a_staircase = question(
    "pause-a-staircase",
    "A gradient is four ones in every step, and of what is owed the largest number is sent. In "
    "the long run, how many times the square of the gradient is the square of the memory?",
    Asked("times", (0 + 1 + 4 + 9) / 4, slips={
          14: "over the square of the gradient", 7.5: "the largest has just been sent",
          1.5: "squares are added up, not sizes"}),
    "one number has just been sent, and the others wait for one, two and three steps",
)

who_may_be_added = question(
    "pause-who-may-be-added",
    "Two ranks keep the largest of two numbers each: of (3, 1) and of (-3, 1). Their messages "
    "are added. The sum of the gradients is (0, 2). What is the largest number that arrives?",
    Asked("largest", 0, slips={2: "neither rank has sent its 1", 1: "neither rank has sent its 1",
                               3: "3 and -3 are both sent, and added"}),
    "both send what cancels, and nothing of the sum arrives",
)

no_larger_than_factors = question(
    "pause-no-larger-than-factors",
    "A weight has 60 rows and 40 columns. From which rank of the factors on does its gradient "
    "travel whole?",
    Asked("rank", 1 / low_rank_fraction(1, 60, 40), slips={
          40: "that is the largest rank there is: count the numbers of both factors",
          60: "count the numbers of both factors", 25: "what if both are equally many?"}),
    "60 * 40 numbers against 100 for each rank",
)

outside_the_columns = question(
    "pause-outside-the-columns",
    "The common columns are one column, (1, 0). A rank that owes nothing has a matrix with the "
    "rows (3, 1) and (2, 4). How large is the sum of squares of what it owes after the step?",
    Asked("squares", 2**2 + 4**2, slips={
          3**2 + 1**2: "that is what counts as sent", 30: "a part of it lies in the column",
          1 + 4**2: "the product has the columns on the left, so it keeps a row"}),
    "the first row lies in the column and is sent, the second is owed",
)

sixteen_times_as_rare = question(
    "pause-sixteen-times-as-rare",
    "A number has the gradient 1 in every step. It is sent in every 16th step, as 16. How many "
    "times less does Adam move its weight in the long run than if it were sent in each step?",
    Asked("times", 16**0.5, slips={
          16: "there are fewer updates, but each is larger",
          1: "the sum is right, but the sum of squares is not",
          256: "it is the root of the mean square that Adam divides by"}),
    "16 over the root of a mean square of 16, once in 16 steps",
)

a_tenth_of_the_steps = question(
    "pause-a-tenth-of-the-steps",
    "1-bit Adam warms up for a tenth of its steps, and sends 32 times fewer bytes in each of the "
    "others. How many times fewer bytes does it send in the whole run than Adam?",
    Asked("times", 1 / (0.1 + 0.9 / 32), slips={
          32: "the warm-up sends whole gradients", 0.1 + 0.9 * 32: "add up bytes, not ratios",
          10: "the other steps send something, too"}),
    "1 / (0.1 + 0.9 / 32): the warm-up sends most of it",
)

bytes_of_memories = question(
    "pause-bytes-of-memories",
    "A model has 1e9 parameters with gradients of 4 bytes, in 40 buckets. With feedback a "
    "hundredth of each bucket is sent. How many bytes do all memories of a rank take?",
    Asked("memories", 4*GB, "bytes", slips={
          4*GB / 40: "each bucket has one of its own",
          4*GB / 100: "that is what is sent; which numbers may be owed?"}),
    "one number for each parameter: as much as the gradients",
)

another_seed = question(
    "pause-another-seed",
    "If nothing were compared: rank 0 draws place 2 and sends the 5 that it has there. Rank 1 has "
    "another seed, draws place 9 and sends 7. What does rank 1 hold for the mean at place 9?",
    Asked("mean", (5 + 7) / 2, slips={
          7: "what rank 0 has sent is added", 3.5: "a number does not say where it belongs",
          12: "that is a sum"}),
    "and rank 0 has the same at place 2: from then on they train two models",
)

signs_of_zeros = question(
    "pause-signs-of-zeros",
    "Of 400 numbers four are of size 1, and all others are zero. Which share of the square do "
    "signs keep, with the mean size as their scale?",
    Asked("share", 4**2 / (400 * 4), slips={
          1: "the zeros get the mean size, too", (4 / 400) ** 2: "over what square?",
          0.99: "that is what is lost"}),
    "4^2 / (400 * 4), as much as the share of numbers that are not zero",
)

what_is_exposed = question(
    "pause-what-is-exposed",
    "An all-reduce takes 40 ms, and the backward pass hides 30 ms of it. With compression hardly "
    "anything is left to send, but coding takes 13 ms, which nothing hides. How much longer does "
    "a step become?",
    Asked("longer", (13 - (40 - 30))*ms, "s", slips={
          -27*ms: "what was hidden cannot be saved",
          13*ms: "what was exposed is saved",
          23*ms: "what was exposed is saved, not added"}),
    "coding less what was exposed: a step is longer although the network is all but idle",
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
