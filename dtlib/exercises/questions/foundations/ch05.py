"""Quick questions of chapter 5, What compute costs."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import (
    break_even_time,
    day,
    deadline_cost,
    failure_multiplier,
    fewest_ranks,
    gang_mtbf,
    gpu_time,
    hour,
    minute,
    young_interval,
)

# fmt: off
_PRICE, _WORK = 2 / hour, 60_000 * hour
_COST = deadline_cost(_WORK, 1 / 1000, _PRICE, 300*hour)
_OFTEN = young_interval(2*minute, gang_mtbf(40*day, 64))
_EVEN = break_even_time(21_000, 2.50 / hour, 0.40 / hour, 0.5)

_OLD_AND_NEW = 1 / (1 / gang_mtbf(20*hour, 10) + 1 / gang_mtbf(5*hour, 10))
_SEGMENT = failure_multiplier(18*minute, 2*minute, 10*minute, 20*minute)
_HALF_AS_MANY = 14*day * (1000 / 500) * gpu_time(1, 1, 0.45) / gpu_time(1, 1, 0.36)

gang_of_two_kinds = question(
    "pause-gang-of-two-kinds",
    "Ten GPUs are each taken every 20 hours on average, ten others every 5 hours. All twenty work "
    "on one job. How long does it run on average until it is interrupted?",
    Asked("time", _OLD_AND_NEW, "s", {
          gang_mtbf(12.5*hour, 20): "lives cannot be averaged; what can be added?",
          gang_mtbf(5*hour, 10): "the other ten are needed, too",
          gang_mtbf(5*hour, 20): "do all twenty live for 5 hours?"}),
    "half an interruption an hour from the first ten, and two from the others",
)

segment_as_long_as_a_life = question(
    "pause-segment-as-long-as-a-life",
    "A segment is 18 minutes of work and 2 of writing. The job is interrupted every 20 minutes on "
    "average, and a restart takes 10. How many times as long as its work does a segment take?",
    Asked("factor", _SEGMENT, slips={
          _SEGMENT * 18 / 20: "how many of the 20 minutes are work?",
          failure_multiplier(18*minute, 0, 10*minute, 20*minute):
              "an interruption while writing loses the segment, too",
          failure_multiplier(18*minute, 2*minute, 0, 20*minute):
              "what follows each interruption?"}),
    "e minus 1, or 1.7 interruptions for each segment, of which each costs half an hour",
)

momentum_left_out = question(
    "pause-momentum-left-out",
    "The next cell saves the weights and the step, but not the momentum, and resumes from that "
    "after each of the five deaths. What is different at the end?",
    Chosen("different", "the weights, a little", {
           "nothing": "with which momentum does the first step after a restart begin?",
           "the weights, completely": "for how many steps does a momentum of 0.9 remember?",
           "it does not end": "does the program miss anything when it loads the file?"}),
    "each restart begins with a momentum of zero, which nothing in the program notices",
)

half_as_many_but_better = question(
    "pause-half-as-many-but-better",
    "A run takes 1,000 GPUs 14 days at an MFU of 36 %. On 500 GPUs the MFU is 45 %. How long does "
    "the run take there?",
    Asked("time", _HALF_AS_MANY, "s", {
          28*day: "that would be so at an equal MFU",
          28*day * 0.45 / 0.36: "does a higher MFU need more GPU-hours, or fewer?",
          14*day * 0.36 / 0.45: "how many GPUs share the work?"}),
    "twice as long at the same efficiency, and four fifths of that at this one: fewer GPU-hours",
)

fifth_more_throughput = question(
    "pause-fifth-more-throughput",
    "Runs of one budget end 0.16 nats above the floor, and what lies above it falls as the work to "
    "the power -0.178. A better layout does a fifth more work for the same money. By how many nats "
    "does the loss fall?",
    Asked("nats", 0.16 * (1 - 1.2**-0.178), slips={
          0.16 * (1 - 1 / 1.2): "the power is 0.178, not 1",
          0.16 * 1.2**-0.178: "that is what is left above the floor",
          1 - 1.2**-0.178: "that is a share; of what?"}),
    "three per cent of what is left to win",
)

share_of_a_life = question(
    "pause-share-of-a-life",
    "A model reads and writes three times as many tokens in use as it was trained on. Which share "
    "of the arithmetic of its whole life is its training?",
    Asked("share", 6 / (6 + 2 * 3), slips={
          1 / 4: "a token of use has no backward pass",
          1 / 3: "compare training with the whole life, not with a token of each",
          3 / 4: "a token in use costs less than one in training, not more"}),
    "a half: six operations for each parameter and token, and three times two",
)

taken_by_the_node = question(
    "pause-taken-by-the-node",
    "The 64 spot GPUs stand in eight nodes of eight. The provider takes whole nodes, each every 20 "
    "hours on average. How long does the job run on average until it is interrupted?",
    Asked("time", gang_mtbf(20*hour, 8), "s", {
          gang_mtbf(20*hour, 64): "how many events an hour are there, if a node goes as one?",
          20*hour: "how many nodes must last?",
          gang_mtbf(20*hour, 512): "is it more often or less, if eight GPUs go at once?"}),
    "what counts is how many things fail on their own: here eight",
)

price_of_a_deadline = question(
    "ask-price-of-a-deadline",
    "The arithmetic of a run takes one GPU 60,000 hours and divides evenly; communication adds 60 "
    "hours, however many GPUs there are, and nothing overlaps. A GPU-hour costs 2 dollars. What is "
    "the least that the run costs if it must end within 300 hours?",
    Asked("cost", _COST, "dollars", {
          _PRICE * _WORK: "GPUs are paid for while they communicate, too",
          _COST / 2: "those are the GPU-hours",
          fewest_ranks(_WORK, 1 / 1000, 300*hour): "that is how many GPUs it takes"}),
    "the fewest GPUs that are in time, each paid for until the end",
)

how_often_to_save = question(
    "ask-how-often-to-save",
    "64 GPUs work on one job, which stops when one of them fails; each does so every 40 days on "
    "average. A checkpoint stops the job for 2 minutes. How much work should lie between two "
    "checkpoints, by Young's formula?",
    Asked("interval", _OFTEN, "s", {
          young_interval(2*minute, 40*day): "that is for a single GPU",
          _OFTEN / 2**0.5: "a failure loses half an interval on average, not all of it",
          gang_mtbf(40*day, 64): "that is the mean time between failures"}),
    "then checkpoints and lost work cost the same",
)

bought_and_half_used = question(
    "ask-bought-and-half-used",
    "A GPU costs 21,000 dollars, and 0.40 dollars for each hour in which it works, which is half "
    "of the time. Renting one costs 2.50 dollars for each hour of work. How long after the "
    "purchase has it paid for itself? Neglect interest and resale.",
    Asked("time", _EVEN, "s", {
          _EVEN / 2: "that many hours of work; and how long does it wait for them?",
          break_even_time(21_000, 2.50 / hour, 0, 0.5): "owning has running costs, too"}),
    "only an hour of work saves the rent",
)
