"""Quick questions of chapter 5, What compute costs."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.foundations import (
    break_even_time,
    day,
    deadline_cost,
    fewest_ranks,
    gang_mtbf,
    hour,
    minute,
    young_interval,
)

# fmt: off
_PRICE, _WORK = 2 / hour, 60_000 * hour
_COST = deadline_cost(_WORK, 1 / 1000, _PRICE, 300*hour)
_OFTEN = young_interval(2*minute, gang_mtbf(40*day, 64))
_EVEN = break_even_time(21_000, 2.50 / hour, 0.40 / hour, 0.5)

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
