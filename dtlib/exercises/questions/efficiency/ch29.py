"""Quick questions of chapter 29, Asynchrony and local steps."""

from dtlib.efficiency import (
    local_step_time,
    queue_trainer_idle_fraction,
    stability_border,
    streamed_step_time,
)
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question

# fmt: off
ages_in_flight = question(
    "pause-ages-in-flight",
    "Five workers have made 100 updates. Their gradients in flight are 0, 1, 3, 3 and 9 updates "
    "old by now. What is the sum of the staleness of the 100 that arrived?",
    Asked("sum", 4 * 100 - 16, slips={
          400: "some of the age is still in flight", 500: "an arrival does not age itself",
          416: "what is in flight has not arrived"}),
    "400 updates of age were given out, and 16 of them have not arrived",
)

the_slow_one_is_old = question(
    "pause-the-slow-one-is-old",
    "Three workers take 2 s, 4 s and 4 s. How old are the gradients of the first, on average?",
    Asked("age", 1.0, slips={
          2.0: "that is the mean over all gradients", 4.0: "the others are slower than it"}),
    "in 2 s each of the others makes half an update",
)

rates_add_up = question(
    "pause-rates-add-up",
    "Three workers take 1 s, 2 s and 4 s, and nobody waits. How many seconds pass for 7 gradients?",
    Asked("seconds", 4.0, "s", slips={
          7 / 3 * 7 / 3: "rates average, times do not", 28 / 3: "that is with a barrier",
          12.0: "that is with a barrier after each three"}),
    "1 + 1/2 + 1/4 gradients a second",
)

a_third_of_a_turn = question(
    "pause-a-third-of-a-turn",
    "How many updates old are the gradients if at the border weights repeat after six updates, "
    "that is, theta = pi / 3?",
    Asked("age", 1, slips={
          3: "that is what divides pi; solve for tau", 2.5: "half a turn is pi"}),
    "theta = pi / (2 tau + 1)",
)

a_border_of_three = question(
    "pause-a-border-of-three",
    "Gradients are one update old, and the curvature is 4. From which learning rate on does "
    "descent diverge?",
    Asked("rate", stability_border(1) / 4, slips={
          0.5: "that is without age", 1.0: "and the curvature?", 4.0: "divide by the curvature"}),
    "2 sin(pi / 6) = 1, over 4",
)

which_is_faster = question(
    "pause-which-is-faster",
    "At a learning rate of a hundredth of the border without age, gradients are made one update "
    "old. Are more updates needed to come near the minimum of a parabola, or fewer?",
    Chosen("updates", "fewer", {
           "more": "an old gradient is a little larger than a fresh one, on the way down"}),
    "what is left of an old distance is larger, so each step is; far below the border this helps",
)

momentum_of_four = question(
    "pause-momentum-of-four",
    "Five workers never wait, and their ages are drawn as above. How large is the momentum that "
    "they bring?",
    Asked("momentum", 0.8, slips={
          4.0: "that is the mean age", 0.2: "that is the factor of the learning rate",
          0.75: "of five workers four are the others, but the mean age is mu / (1 - mu)"}),
    "1 - 1/5, since 0.8 / 0.2 is 4",
)

a_rate_that_noise_allows = question(
    "pause-a-rate-that-noise-allows",
    "In the bound above, what does doubling the age do to the last term, if the learning rate is "
    "made half as large at the same time? It becomes so many times as large.",
    Asked("times", 0.5, slips={
          2.0: "the learning rate enters it squared", 1.0: "the learning rate enters it squared",
          0.25: "and the age itself?"}),
    "2 times (1/2)^2",
)

held_for_good = question(
    "pause-held-for-good",
    "A server holds a gradient until its age is at most 2. It is 5 updates old now. Seven more "
    "updates are made. How old is it then?",
    Asked("age", 12, slips={
          0: "an update elsewhere makes it older", 2: "what would make it younger?",
          5: "each update ages what has not been applied"}),
    "an age only grows, so the wait has no end",
)

slack_of_two = question(
    "pause-slack-of-two",
    "Five workers with a slack of 2: how old can a gradient be at most, by the bound?",
    Asked("age", (2 * 2 + 1) * 4, slips={
          25: "its own worker makes no update meanwhile", 8: "others may be behind, too, when it "
          "reads", 16: "and the round that is being finished?"}),
    "(2 s + 1) (P - 1)",
)

given_out_in_a_run = question(
    "pause-given-out-in-a-run",
    "A server on nine ranks, eight of which work without waiting, makes 50 updates. How much age "
    "is given out in the run?",
    Asked("updates", 7 * 50, slips={
          400: "an arrival does not age itself", 450: "the server computes no gradient"}),
    "P - 1 = 7 in each update, on any machine and in any order",
)

a_backup_is_dropped = question(
    "pause-a-backup-is-dropped",
    "20 workers, 2 of them backups. Which percentage of the gradients that are computed is thrown "
    "away, if all arrive in the end?",
    Asked("percent", 10.0, slips={100 * 2 / 18: "of all that are computed", 0.1: "in percent"}),
    "2 of 20",
)

a_mean_as_an_outer_step = question(
    "pause-a-mean-as-an-outer-step",
    "The anchor is 10, and two ranks have walked to 6 and to 8. Where is the anchor after an outer "
    "step with the rate 0.5 and no momentum?",
    Asked("anchor", 8.5, slips={
          7.0: "that is the mean, which a rate of 1 gives", 11.5: "the pseudo-gradient is x - y",
          3.5: "half of the way to the mean, from the anchor"}),
    "10 - 0.5 (4 + 2) / 2",
)

bytes_of_a_round = question(
    "pause-bytes-of-a-round",
    "Ranks with AdamW meet after every 50 steps by DiLoCo. How many times fewer bytes do they send "
    "than if they averaged gradients, of the same type, in each step?",
    Asked("times", 50, slips={
          50 / 3: "the moments stay where they are", 25: "weights are as many as gradients"}),
    "one all-reduce as long as a gradient, every 50 steps",
)

many_steps_a_round = question(
    "pause-many-steps-a-round",
    "Three ranks with curvatures 1, 10 and 100 have their minima at 0, 3 and 6. Rounds are very "
    "long, and no rank diverges. Where does local SGD end?",
    Asked("place", 3.0, slips={
          (30 + 600) / 111: "that is the minimum of the mean loss", 6.0: "all three are averaged"}),
    "each arrives at its own minimum, and the plain mean is taken",
)

drift_or_not = question(
    "pause-drift-or-not",
    "All ranks have the same batches in the same order, and no other source of chance. How far, in "
    "weights, are two of them apart after 50 local steps?",
    Asked("apart", 0, slips={50: "what would make them differ?"}),
    "equal steps from equal weights: drift comes from data that differ, and a test without it "
    "shows nothing",
)

one_minute_in_a_hundred = question(
    "pause-one-minute-in-a-hundred",
    "A step computes for 2 s, and a meeting takes 60 s. How long is a step on average, with its "
    "part of the meeting, when ranks meet after every 40 steps?",
    Asked("step", local_step_time(2.0, 60.0, 40), "s", slips={
          62.0: "a meeting comes once in 40 steps", 1.5: "and the computation?"}),
    "2 + 60 / 40",
)

rounds_of_a_run = question(
    "pause-rounds-of-a-run",
    "A run of 100,000 steps meets by DiLoCo with rounds of 500. How many outer steps does it take?",
    Asked("steps", 200, slips={500: "that is a round"}),
    "100,000 / 500: an outer momentum of 0.9 remembers ten of them",
)

fragments_that_hide = question(
    "pause-fragments-that-hide",
    "A step computes for 1 s, a whole meeting takes 24 s, a round has 30 steps. Weights meet in "
    "6 fragments, each of which may hide behind 3 steps. How long is a step on average?",
    Asked("step", streamed_step_time(1.0, 24.0, 30, 6, 3), "s", slips={
          1.8: "three steps hide something of each", 1.0: "a fragment takes 4 s",
          1 + 1 / 30: "there are 6 fragments in a round"}),
    "each of 6 fragments sticks out by 1 s, in 30 steps",
)

a_column_too_heavy = question(
    "pause-a-column-too-heavy",
    "Rank 0 keeps its weight, and rank 1 takes the mean of both. They begin with 0 and 8. On what "
    "do they agree in the end?",
    Asked("weight", 0.0, slips={4: "rank 0 never moves", 8: "rank 1 does not keep its weight"}),
    "rows add up to 1, so they agree; column 0 adds up to 1.5, so the mean is lost",
)

how_many_may_run = question(
    "pause-how-many-may-run",
    "Batches have 16 samples, the cap is 2, and no update has been made yet. How many samples may "
    "have been started?",
    Asked("samples", 48, slips={
          32: "and those of the present update?", 16: "that is with a cap of 0"}),
    "those of updates 0, 1 and 2",
)

who_is_idle = question(
    "pause-who-is-idle",
    "Generators need 30 s for a batch and an update takes 90 s. They take turns, and all samples "
    "are equally long. Which share of the time, in percent, are the generators idle?",
    Asked("percent", 75.0, slips={25.0: "that is the trainer", 200 / 3: "of the whole, 120 s"}),
    "90 of 120 s",
)

older_than_the_cap = question(
    "pause-older-than-the-cap",
    "A batch has 4 samples and the cap is 1. Version 3 is the newest. Which is the largest number "
    "of a sample, counted from 0, that may start?",
    Asked("number", 19, slips={
          16: "update 4 uses four samples", 15: "a cap of 1 allows the next update's",
          20: "samples are counted from 0"}),
    "update 4 uses samples 16 to 19",
)

what_an_old_sample_counts = question(
    "pause-what-an-old-sample-counts",
    "The old policy draws an answer with a probability of 0.2, the new one with 0.3. What does a "
    "sample of this answer count?",
    Asked("weight", 1.5, slips={
          2 / 3: "the new policy is the one that learns", 0.3: "it was drawn by the old policy",
          0.1: "a ratio, not a difference"}),
    "the new probability over the old one",
)

eight_of_them = question(
    "ask-eight-workers",
    "Eight workers never wait. Each takes twice as long as before, all alike. What is the mean "
    "staleness now?",
    Asked("updates", 7, slips={14: "updates come half as often, too", 3.5: "nobody waits",
                               8: "an arrival does not age itself"}),
    "no time occurs in the law",
)

two_levels_at_once = question(
    "ask-one-step-of-adamw",
    "Ranks take one step of AdamW on their own gradients, then average their weights. Is this the "
    "same as AdamW on the averaged gradient?",
    Chosen("same", "no", {
           "yes": "the step is not linear in the gradient: it is divided by a root of squares"}),
    "for SGD it is; each rank's AdamW divides by its own second moment",
)

the_trainer_waits = question(
    "ask-where-the-trainer-waits",
    "Generators need 90 s for a batch, an update takes 60 s, and a long queue is between them. For "
    "how many percent of the time is the trainer idle?",
    Asked("percent", 100 * queue_trainer_idle_fraction(90, 60), slips={
          60.0: "that is with turns", 50.0: "of the time of a batch, which is 90 s",
          100 / 1.5: "that is the time for which it works"}),
    "1 - 60 / 90",
)
