"""Quick questions of chapter 16, Pipeline parallelism."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.parallelism.pipeline import one_f_one_b_peak_count, pipeline_bubble_fraction

# fmt: off
_IDLE = pipeline_bubble_fraction(p=8, m=24, v=1)

idle_of_eight = question(
    "ask-idle-of-eight",
    "GPipe on 8 ranks with 24 micro-batches, all stages equal. Which share of the ranks' time is "
    "idle?",
    Asked("share", _IDLE, slips={
          7 / 24: "that is idle time over work; the whole is longer",
          8 / 31: "the first stage begins at once"}),
    "p - 1 of the m + p - 1 places in a row are empty",
)

held_by_the_second = question(
    "ask-held-by-the-second",
    "1F1B on 8 ranks with 24 micro-batches. Activations of how many does rank 2 hold at most (the "
    "first is rank 0)?",
    Asked("micro-batches", one_f_one_b_peak_count(p=8, m=24, rank=2), slips={
          8: "that is rank 0",
          7: "ranks are counted from 0",
          24: "that is GPipe"}),
    "as many as lie between its forward pass and the return of its gradient",
)

what_one_f_one_b_saves = question(
    "ask-what-1f1b-saves",
    "What does 1F1B save, compared with GPipe, for the same stages and micro-batches?",
    Chosen("saves", "memory", {
           "idle time": "compare when the two schedules end",
           "messages": "each stage hands on the same tensors",
           "both memory and idle time": "compare when the two schedules end"}),
    "the idle time has only been moved",
)
