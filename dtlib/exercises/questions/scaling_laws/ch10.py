"""Quick questions of chapter 10, Batch size and gradient noise."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.scaling_laws.noise.estimate import batch_gradient_square
from dtlib.scaling_laws.noise.tradeoff import (
    best_rate,
    fastest_batch,
    momentum_rate,
    sample_efficiency,
    samples_to_loss,
    steps_to_loss,
)

# fmt: off
square_of_a_mean = question(
    "pause-square-of-a-mean",
    "The square of the true gradient is 1, and one sample's gradient has a variance of 60, all "
    "directions together. What is the square of the gradient of a batch of 20, on average?",
    Asked("square", batch_gradient_square(1, 60, 20), slips={
          61.0: "that is a single sample's",
          3.0: "that is the noise alone",
          1.0: "the noise is not gone on average once it is squared"}),
    "4: what is left of the noise is three times the gradient",
)

one_step = question(
    "pause-one-step",
    "The noise scale is 300 samples. With a batch of 100, which share of what a step without noise "
    "achieves does a step achieve, each at its best rate?",
    Asked("share", best_rate(1, 300, 100), slips={
          0.75: "that is the share of the noise",
          1 / 3: "1 / (1 + noise scale / batch)",
          0.5: "the rate is a quarter, and so is what it achieves: noise costs the rest"}),
    "a quarter: 1 / (1 + 3)",
)

twice_the_fewest = question(
    "pause-twice-the-fewest",
    "A run takes 1.25 times the fewest steps that any batch allows. How many times the fewest "
    "samples does it read?",
    Asked("times", samples_to_loss(1, 1, 4), slips={
          1.25: "steps and samples are at opposite ends",
          4.0: "that is the batch over the noise scale; the samples are that and one",
          0.8: "it reads more than the fewest"}),
    "5: a quarter above the fewest steps is four times above the fewest samples",
)

two_norms = question(
    "pause-two-norms",
    "Eight ranks have 4 samples each. The mean square of their gradients is 9, and the square of "
    "the mean gradient is 2. What is the square of the true gradient?",
    Asked("|G|^2", (32 * 2 - 4 * 9) / 28, slips={
          2.0: "that still holds the noise of 32 samples",
          7.0: "that is noise alone",
          0.875: "the mean gradient has an eighth of the noise of a rank's, and both have |G|^2"}),
    "noise of 4 samples is 8, of 32 it is 1, and both stand on a 1",
)

momentum_pause = question(
    "pause-momentum",
    "SGD with a momentum of 0.9 has a rate of 0.02. At a small batch, which rate of plain SGD does "
    "the same?",
    Asked("rate", momentum_rate(0.02, 0.9), slips={
          0.02: "a gradient acts again in the steps that follow",
          0.038: "0.9 in the next, and 0.81 in the one after it, and so on",
          0.002: "the other way round"}),
    "0.02 / (1 - 0.9)",
)

which_moment = question(
    "pause-which-moment",
    "A run goes on until the noise scale has become four times as large. Its batch was the best "
    "when it began. By which factor should it have grown?",
    Asked("factor", fastest_batch(4, 1, 1, 1) / fastest_batch(1, 1, 1, 1), slips={
          4.0: "it follows the root: a larger batch costs samples, too",
          1.0: "what noise asks for has changed"}),
    "2, the square root",
)

whose_steps = question(
    "pause-whose-steps",
    "A schedule of 12,000 steps is called once a step by each of 16 processes, and counts the "
    "calls. After how many steps of the run has it ended?",
    Asked("steps", 750, slips={
          12_000: "each step counts 16 times",
          192_000: "it ends sooner, not later"}),
    "a sixteenth of the run",
)

at_which_batch = question(
    "ask-which-batch-is-cheap",
    "The noise scale is 2 million tokens. A run uses batches of 16 million, in its last third. How "
    "much is a token worth there, over what it is worth in a small batch?",
    Asked("share", sample_efficiency(2e6, 16e6), slips={
          0.125: "1 / (1 + batch / noise scale)",
          1 - sample_efficiency(2e6, 16e6): "that is what is lost"}),
    "a ninth",
)

four_times_the_ranks = question(
    "ask-four-times-the-ranks",
    "Four times as many ranks work on one run, and the fixed part of a step stays. By which factor "
    "should the batch grow?",
    Asked("factor", 2.0, slips={
          4.0: "that keeps each rank as busy, and wastes samples",
          1.0: "then the fixed part weighs four times as much"}),
    "the geometric mean of two batches, of which one has become four times as large",
)

rate_far_below = question(
    "ask-a-rate-far-below",
    "The batch is a hundredth of the noise scale, and is doubled. What should plain SGD do with "
    "its rate, and Adam with its own?",
    Chosen("rates", "double, root", {
           "root, root": "SGD's rate is in proportion there",
           "double, double": "Adam has divided by the noise already",
           "keep, keep": f"noise has halved: {steps_to_loss(1, 100, 1):.0f} times the fewest steps "
                         f"become {steps_to_loss(1, 100, 2):.0f}, with another rate"}),
    "in proportion, and by its root",
)
