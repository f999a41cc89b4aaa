"""Quick questions of chapter 8, Compute-optimal training."""

import math

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.scaling_laws.compute_optimal.repetition import effective_tokens
from dtlib.scaling_laws.compute_optimal.serving import least_shrink, over_training_factor

# fmt: off
_LN_10 = math.log(10)

equal_powers = question(
    "pause-equal-powers",
    "In a law both powers are 0.35, and B is four times A. The budget grows a hundred times. By "
    "which factor does the best number of tokens for each parameter grow?",
    Asked("factor", 1, slips={
          10: "the size and the tokens grow by that; and their ratio?",
          100**0.35: "the budget stands to the power of the difference of the two powers",
          4: "A and B set the ratio; do they change?"}),
    "both grow as the root of the budget, so the ratio stays",
)

which_is_nearest = question(
    "pause-which-is-nearest",
    "Which of the three comes nearest to the best size at a thousand times the largest budget?",
    Chosen("estimator", "parabolas", {
           "surface": "it is close; but a small error of E, A and B moves the optimum along the "
                      "valley, and the other way cannot make this error",
           "envelope": "a curve that is lucky wins at many budgets, and winners are only those "
                       "sizes that were trained"}),
    "the lowest point is read off where it is, and nothing else must be right",
)

one_budget = question(
    "pause-one-budget",
    "Two budgets are a factor of 10 apart, and the foot of either parabola is uncertain by 10 %, "
    "independently. By how much is the power between them uncertain?",
    Asked("power", 0.1 * 2**0.5 / _LN_10, slips={
          0.1: "it is the difference of two logarithms, over that of the budgets",
          0.1 / _LN_10: "both feet are uncertain",
          0.2 / _LN_10: "independent errors add up as squares",
          0.1 * 2**0.5: "divide by the logarithm of the factor of 10"}, tolerance=0.02),
    "a quarter of what the schools differ by; a factor of 1,000 would make it a third of that",
)

what_was_counted = question(
    "pause-what-was-counted",
    "A model's layers have N parameters, and its last layer as many again. In the smallest of a "
    "family; in the largest it is negligible. Leaving it out, the best size seems to grow 100 "
    "times from the smallest to the largest. By how much does it grow if it is counted?",
    Asked("times", 50, slips={
          200: "the smallest becomes larger by it, the largest does not",
          100: "the smallest has twice as many then",
          101: "the smallest has twice as many then"}),
    "the same two models: what looked like growth was what had been left out",
)

on_the_far_side = question(
    "pause-on-the-far-side",
    "Under the law that was fitted anew, how many parameters must a model have at least to reach "
    "the loss of a compute-optimal one of 70 billion?",
    Asked("params", 70e9 * least_shrink(0.3478, 0.3658), "", {
          7e9: "a tenth is below the least share",
          70e9 * least_shrink(0.34, 0.28): "that is the law as printed",
          35e9: "half costs a quarter more, and smaller ones are possible"}),
    "some 10 billion, and only with endless text",
)

sixteen_epochs = question(
    "pause-sixteen-epochs",
    "With R* of 15.4, how many passes over fresh text are endless repetitions worth, the first "
    "pass included?",
    Asked("passes", effective_tokens(1e9, 1, 15.4), slips={
          15.4: "and the first pass?",
          1e9: "each repetition is worth less than the one before",
          15.4 / 2.718281828: "that much is left after 15.4 repetitions"}),
    "the sum of a falling series is bounded",
)

ask_ten_times_the_budget = question(
    "ask-ten-times-the-budget",
    "A team makes its model 10 times as large for 100 times the budget. Which power is that?",
    Asked("power", 0.5, slips={
          0.1: "10 is 100 to which power?", 2: "the size as a power of the budget",
          0.73: "that would be 29 times the size"}),
    "Hoffmann's: tokens grow ten times as well",
)

ask_what_moved_the_power = question(
    "ask-what-moved-the-power",
    "Which change moved the power most between Kaplan's setting and a half?",
    Chosen("change", "counting the last layer", {
           "a decay that ends with the run": "the power reached a half without any decay",
           "a shorter warm-up": "it is second",
           "tuning": "it is third; what needed no training at all?"}),
    "what is counted, before how it is trained",
)

ask_price_of_three_quarters = question(
    "ask-price-of-three-quarters",
    "With powers of 0.35 each, how many times the least FLOPs does a model of three quarters of "
    "the compute-optimal size take for the same loss?",
    Asked("times", over_training_factor(0.75, 0.35, 0.35), slips={
          4 / 3: "the tokens grow, the size shrinks: multiply both",
          0.75: "it needs more tokens",
          over_training_factor(0.5, 0.35, 0.35): "that is half the size"}),
    "a few per cent for a quarter off every token that is served",
)
