"""Quick questions of chapter 16, Pipeline parallelism."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import ms
from dtlib.parallelism.pipeline import (
    one_f_one_b_peak_count,
    pipeline_bubble_fraction,
    pipeline_sent_bytes,
    pipeline_step_time,
    zb_v,
    zero_bubble,
)

# fmt: off
_IDLE = pipeline_bubble_fraction(p=8, m=24, v=1)
_MESSAGES = pipeline_sent_bytes(n=1, m=6, p=5, v=1)
_HELD_BY_THE_LAST = zero_bubble(6, 20, 2).peak_activations[-1]
_V = zb_v(4, 8)
_LOSS = next(rank for rank in range(4) if _V.stages - 1 in _V.stages_of(rank))


def _step(m):
    return pipeline_step_time(p=8, m=m, v=1, f=128*ms / m + 1*ms, b=0, w=0)


_FASTEST = min((8, 16, 32, 64), key=_step)
_LONGER = 390*ms - 230*ms  # the work of 16 more micro-batches

messages_of_five_stages = question(
    "pause-messages-of-five-stages",
    "A model is cut into five stages, each on a rank of its own, and a batch into six "
    "micro-batches that travel alone. How many messages are sent in a step, forward and back?",
    Asked("messages", _MESSAGES, slips={
          24: "what does a stage need for its backward pass?",
          60: "how many cuts do five stages have?",
          8: "does the whole batch travel at once?"}),
    "four cuts, six micro-batches, two directions",
)

held_by_the_last = question(
    "pause-held-by-the-last",
    "Under 1F1B the last of six ranks holds one micro-batch at a time. With the knob at c = 2 and "
    "20 micro-batches, each of which is held until its W is done, how many does the last rank hold "
    "at its fullest?",
    Asked("micro-batches", _HELD_BY_THE_LAST, slips={
          1: "how late is its W?",
          10: "so many wait for their W; and the one that has just come in?",
          6: "is that the number for this c?",
          20: "does its W wait until all forward passes are done?"}),
    "it takes in the fewest ahead, so its W are the latest",
)

owed_by_the_last = question(
    "pause-owed-by-the-last",
    "The last of eight ranks may hold 16 micro-batches' worth of activations, and between its B "
    "and its W a micro-batch needs a quarter of them. Of 100 micro-batches, how many W can the "
    "rank owe when it begins its last B?",
    Asked("put off", (16 - 1) * 4, slips={
          64: "what else does it hold when it begins a B?",
          15: "how much of a micro-batch does a W need?",
          16: "how much of a micro-batch does a W need?",
          99: "do they fit into the memory?",
          100: "can it owe the W of a B that has not begun?"}),
    "one micro-batch is under way, and beside it fit fifteen times four quarters",
)

rank_of_the_loss = question(
    "pause-rank-of-the-loss",
    "A training script for GPipe on four ranks hands the words of the batch to rank 0 and the "
    "targets of the loss to rank 3. The schedule is now ZB-V. Which rank needs the targets?",
    Chosen("rank", f"rank {_LOSS}", {
           "rank 3": "on which rank does a V end?",
           "rank 1": "the last of the eight stages has which mirror image?",
           "every rank": "how many stages compute the loss?"}),
    "the last stage lies with the first: words go in and logits come out on the same rank",
)

why_not_bit_for_bit = question(
    "pause-why-not-bit-for-bit",
    "Cut in two by hand, a step gave every gradient to the last bit. The next cell compares to "
    "1e-12 only. What makes the last bits differ?",
    Chosen("made by", "the sums over micro-batches", {
           "the messages": "in how many bits does a 64-bit number travel?",
           "the number of stages": "did the cut into two change any bit?",
           "the order of the ranks": "do two ranks add anything to the same gradient?"}),
    "eight gradients are added one by one, where one process sums over the whole batch at once",
)

first_wrong_loss = question(
    "pause-first-wrong-loss",
    "Without the name, each of the two copies of the weight is updated with the gradient of its "
    "own use only. In which step of the training, counted from 1, is the loss wrong for the first "
    "time?",
    Asked("step", 2, slips={
          1: "is this loss computed before the first update or after it?",
          3: "are the copies still equal after the first update?",
          4: "are the copies still equal after the first update?"}),
    "wrong weights are needed for a wrong loss, and the first update makes them",
)

pieces_of_a_fixed_batch = question(
    "pause-pieces-of-a-fixed-batch",
    "Eight stages, a fixed batch. A rank's work for all of it is 128 ms, and each micro-batch "
    "costs a rank 1 ms more, for starts and small products. Into how many micro-batches of 8, 16, "
    "32 or 64 should it be cut?",
    Chosen("micro-batches", _FASTEST, {
           8: "how many turns does a step have, and how long is each?",
           16: "twice as many: what is added to the work, and what is saved in the stairs?",
           64: "every micro-batch, and every step of the stairs, pays its millisecond"}),
    "m + 7 turns of 128 / m + 1 ms: 195 ms, where half or twice as many take 207 and 213",
)

idle_share_from_outside = question(
    "pause-idle-share-from-outside",
    "A step with 16 micro-batches takes 230 ms, one with 32 of the same size 390 ms. All stages "
    "are equal, the order is 1F1B, and nothing else takes time. What share of the ranks' time is "
    "idle in the first?",
    Asked("share", 1 - _LONGER / (230*ms), slips={
          (230*ms - _LONGER) / _LONGER: "divided by the whole or by the work?",
          _LONGER / (230*ms): "that is the work of 16 micro-batches",
          (230*ms - _LONGER) / (390*ms): "the whole of which step?"}),
    "a turn takes 10 ms, and 23 of them are 16 and the seven of eight stages",
)

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
