"""Quick questions of chapter 8, Compute-optimal training."""

import math

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.scaling_laws.compute_optimal.repetition import effective_tokens
from dtlib.scaling_laws.compute_optimal.serving import least_shrink, over_training_factor

# fmt: off
_LN_10 = math.log(10)

price_of_compute = question(
    "pause-price-of-compute",
    "A trick lowers the loss by 0.0028 nats where the loss falls by 0.028 nats for each unit of "
    "ln C. Which share of the budget is it worth, to first order?",
    Asked("share", 0.1, slips={
          0.0028: "divide by what a unit of ln C buys", 10: "the other way round",
          0.028: "that is the price of a unit"}),
    "a tenth of the budget, for a change in the third digit of the loss",
)

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

third_digit = question(
    "pause-third-digit",
    "Two fits differ by 0.005 in beta alone, and the powers add up to 0.62. By which factor do "
    "their ratios of tokens to parameters drift apart over five decades of compute?",
    Asked("factor", 10 ** (5 * 0.005 / 0.62), slips={
          10 ** (5 * 0.005): "the difference of the powers is divided by their sum",
          0.005 / 0.62: "that is the power of the compute",
          1.005: "it is a power of 100,000"}, tolerance=0.005),
    "a tenth by the budget; what the constants' power makes of it comes on top",
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

which_side = question(
    "pause-which-side",
    "In Hoffmann's law alpha is larger than beta. Sizes are centred on the true optimum. Is the "
    "foot of a wide parabola too large a model or too small a one?",
    Chosen("it is", "too large", {
           "too small": "alpha is the larger: beta - alpha is negative, and the shift has a minus",
           "right": "only if both powers are the same"}),
    "the valley is steeper towards small models, so the parabola leans away from them",
)

two_feet = question(
    "pause-two-feet",
    "Two budgets are a factor of 10 apart, and the foot of either parabola is uncertain by 10 %, "
    "independently. By how much is the power between them uncertain?",
    Asked("power", 0.1 * 2**0.5 / _LN_10, slips={
          0.1: "it is the difference of two logarithms, over that of the budgets",
          0.1 / _LN_10: "both feet are uncertain",
          0.2 / _LN_10: "independent errors add up as squares",
          0.1 * 2**0.5: "divide by the logarithm of the factor of 10"}, tolerance=0.02),
    "a quarter of what the schools differ by; a factor of 1,000 would make it a third of that",
)

per_cent_of_layers = question(
    "pause-per-cent-of-layers",
    "In the smallest model 94 % of the parameters are in the last layer. Its layers get 1 % more "
    "parameters. By how many per cent does the whole model grow?",
    Asked("per cent", 0.06 + 0.94 / 3, slips={
          1: "the last layer grows as the width, which is the cube root",
          0.06: "the last layer grows, too", 0.94: "it grows by a third of a per cent"}),
    "little: so size seems to buy little, and tokens seem the better buy",
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

same_ratio = question(
    "pause-same-ratio",
    "The last setting has the same best ratio at both ends, and its budgets are 2,048 times apart. "
    "How many times as large is the best model at the upper end?",
    Asked("times", 2048**0.5, slips={
          2048: "the tokens grow as well", 1024: "half of the factor is no root",
          2048**0.73: "that would be Kaplan's power"}),
    "the root: with one ratio both grow alike",
)

flat_valley = question(
    "pause-flat-valley",
    "Near its bottom a valley is a parabola in ln N. A model that is off by a factor of 2 loses "
    "0.0065 nats. What does one lose that is off by a factor of 4?",
    Asked("nats", 4 * 0.0065, slips={
          2 * 0.0065: "twice as far in ln N; and the loss goes with the square",
          16 * 0.0065: "ln 4 is twice ln 2, not four times"}),
    "twice as far, four times as much, and still little",
)

ratios_to_sizes = question(
    "pause-ratios-to-sizes",
    "Two refits ask for 5 and for 80 tokens for each parameter, at one budget. How many times as "
    "many parameters has the larger of their models?",
    Asked("times", (80 / 5) ** 0.5, slips={
          80 / 5: "the larger model also has fewer tokens: the product is given",
          (80 / 5) ** 2: "the budget is a product of both, not a square of each",
          8: "half of a factor is no root"}),
    "4: size and tokens share the factor, as their product stays",
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

served_and_read = question(
    "pause-served-and-read",
    "A model will serve three times as many tokens as it is trained on. At its best size, how many "
    "times as fast per cent does the size's term fall as the data's?",
    Asked("times", 2, slips={
          1: "that is for a model that serves nothing",
          4: "a token of use takes a third of the FLOPs of one of training",
          10: "divide by three, do not multiply"}),
    "1 + 3/3: for an imbalance of two it takes that much use",
)

dearer_tokens = question(
    "pause-dearer-tokens",
    "A token of use takes three times the GPU time that its FLOPs say. After how many trillion "
    "tokens is the smaller model even then, instead of 11?",
    Asked("trillion", 11 / 3, slips={
          33: "each token saves more then", 11: "does the time that is saved not count?"},
          tolerance=0.05),
    "a third: the worse a GPU serves, the sooner a smaller model pays",
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

parameters_that_fade = question(
    "pause-parameters-that-fade",
    "Parameters beyond what the text can feed fade with 5.3 in place of 15.4. A model has five "
    "times the parameters that its text can feed. How many times are they worth?",
    Asked("times", effective_tokens(5, 1, 5.3), slips={
          5: "what is beyond counts less and less",
          effective_tokens(5, 1, 15.4): "that is for five epochs",
          effective_tokens(5, 1, 5.3) - 1: "and those that the text does feed?"}),
    "not quite four: five epochs would be worth more",
)

twice_as_sure = question(
    "pause-twice-as-sure",
    "The budgets of a grid reach over a factor of 30, and the feet of its parabolas are as "
    "uncertain as they are. Over which factor must they reach for half the interval of the power?",
    Asked("factor", 900, slips={
          60: "twice as far in ln C", 120: "errors of a slope go with the distance, not its root"}),
    "a slope needs distance: 30 squared",
)

better_text = question(
    "pause-better-text",
    "On a better text the data's term is a tenth smaller at every D. All else is the same, and "
    "both powers are 0.35. By which factor does the best number of tokens for each parameter "
    "change?",
    Asked("factor", 0.9 ** (2 / 0.7), slips={
          0.9: "B stands to the power 2 / (alpha + beta)",
          0.9 ** (1 / 0.7): "that is the tokens; the size grows by the same factor",
          0.9 ** -(2 / 0.7): "better text needs fewer tokens"}),
    "a quarter fewer tokens for each parameter: the ratio belongs to the text",
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
