"""Quick questions of chapter 3a, Feeding the data."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.foundations import fetches_in_flight, safe_depth

# fmt: off
_DEPTH = safe_depth(slowest=9, step=0.4)
_ENOUGH = fetches_in_flight(fetch=3, step=0.5) < 8

batches_ahead = question(
    "ask-batches-ahead",
    "A step takes 0.4 s; a fetch takes 2.4 s on average and 9 s at most. Batches are taken in "
    "order, and each batch ahead has a worker of its own. How many must be ahead, so that the GPU "
    "never waits again once the first ones have come?",
    Asked("batches", _DEPTH, slips={
          fetches_in_flight(2.4, 0.4): "that many are under way on average; and a late one?",
          9 / 0.4: "batches are whole",
          _DEPTH - 1: "then the slowest fetch is still a little late"}),
    "the slowest fetch sets the room, the mean only the workers",
)

rate_or_buffer = question(
    "ask-rate-or-buffer",
    "Eight workers fetch, and at most eight batches are ahead, taken in order. A fetch takes 3 s "
    "on average, a single one now and then 12 s; a step takes 0.5 s, and the GPU often waits. "
    "What does the loader lack?",
    Chosen("lack", "only a buffer" if _ENOUGH else "a rate", {
           "a rate": "how many batches a second can eight workers make, and how many are used?",
           "both": "compare supply and demand on average",
           "neither": "how many steps can the batches ahead bridge?"}),
    "supply is larger than demand on average; a late batch must be asked for earlier",
)

where_to_resume = question(
    "ask-where-to-resume",
    "Eight ranks train on batches of 64 samples, all ranks together, in the order of a stream. A "
    "crash comes when the model has done 500 steps and the loader is 20 batches ahead. Four ranks "
    "go on, with the same batch. Which sample of the stream comes first (counted from 0)?",
    Asked("sample", 500 * 64, slips={
          520 * 64: "what was read ahead has not been trained on",
          500 * 64 / 2: "the batch is that of all ranks, however many there are",
          500 * 64 / 8: "that is what one rank has had"}),
    "the steps that the model has been trained on, and nothing else",
)
