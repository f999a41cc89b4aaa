"""Quick questions of chapter 3a, Feeding the data."""

from math import log

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import fetches_in_flight, read_amplification, safe_depth

# fmt: off
_DEPTH = safe_depth(slowest=9, step=0.4)
_ENOUGH = fetches_in_flight(fetch=3, step=0.5) < 8

_DECODER, _GPU = 3, 5  # batches a second
_NAMES = 1_000_000 * 80
_LEFT = 12 - 3  # steps that are not written down

share_that_waits = question(
    "pause-share-that-waits",
    "A reader delivers 8 batches a second, a decoder 3, and the GPU could take 5. Between them "
    "there is room for a few batches. For which share of the time does the GPU wait in the long "
    "run?",
    Asked("share", 1 - _DECODER / _GPU, slips={
          _DECODER / _GPU: "that is the share for which it computes",
          1 - _DECODER / 8: "what could the GPU take by itself?",
          0: "how many batches a second reach it?"}),
    "the decoder passes 3 a second, so that is what every stage passes",
)

bytes_read_over = question(
    "pause-bytes-read-over",
    "A sequence of 4,096 tokens, 4 bytes each, is read at a random place from blocks of 1 MB "
    "(10^6 bytes). For each byte that is wanted, how many are read on average?",
    Asked("factor", read_amplification(4096 * 4, 10**6), slips={
          (4096 + 10**6 - 1) / 4096: "how many bytes has a token?",
          10**6 / (4096 * 4): "does every record begin where a block begins?"}),
    "a whole block for a sixtieth of it, and now and then two",
)

every_tenth_name = question(
    "pause-every-tenth-name",
    "A million names of 80 bytes lie one after another in memory, in pages of 4 KiB. A forked "
    "worker only reads them, and of them only every tenth. How much does it then own alone?",
    Asked("owned", _NAMES if 4096 // 80 > 10 else _NAMES / 10, "bytes", {
          _NAMES / 10: "what does the system copy, a name or a page?",
          0: "where is the count that Python raises when it reads a name?"}),
    "about five of them lie on every page, and one is enough to copy it",
)

names_of_a_node = question(
    "pause-names-of-a-node",
    "A list of fifty million names takes 4 GB. A node has eight ranks with eight workers each, and "
    "after many epochs every worker has read every name. How much do all its workers own alone?",
    Asked("owned", 8 * 8 * 4e9, "bytes", {
          8 * 4e9: "that is one rank with its workers, or one worker of each rank",
          16 * 4e9: "how many processes are eight ranks with eight workers each?",
          4e9: "that is one worker"}),
    "as much as a copy of the list for each worker, though nobody has changed it",
)

samples_of_two_ranks = question(
    "pause-samples-of-two-ranks",
    "Twelve steps of eight samples each. Four ranks have written down steps 0, 1 and 2 when one of "
    "them dies in step 3. Two ranks do the rest. On how many samples does each of these train?",
    Asked("samples", _LEFT * 8 / 2, slips={
          _LEFT * 8 / 4: "does a step become smaller when there are fewer ranks?",
          (_LEFT - 1) * 8 / 2: "has the step in which the rank died been trained?",
          12 * 8 / 2: "which steps need not be done again?"}),
    "nine steps are left, and each rank takes half of every one",
)

four_packs_on_two_ranks = question(
    "pause-four-packs-on-two-ranks",
    "Four packs cost 9, 5, 5 and 1. In order, rank 0 gets the first two and rank 1 the others. How "
    "many times the mean does the busiest rank have then? (Dealt longest first, it has the mean.)",
    Asked("times", (9 + 5) / ((9 + 5 + 5 + 1) / 2), slips={
          (9 + 5) / (5 + 1): "over the mean of both, not over the other",
          9 / 5: "a rank has two packs",
          1: "that is how it is dealt longest first"}),
    "14 against a mean of 10; 9 with 1 and 5 with 5 would be even",
)

half_of_all_steps = question(
    "pause-half-of-all-steps",
    "A loader is late in one of 60 steps, each loader for reasons of its own. With how many "
    "loaders is somebody late in half of all steps?",
    Asked("loaders", log(1 / 2) / log(59 / 60), slips={
          30: "then somebody is late in 1 - (59/60)^30 of the steps",
          60: "then somebody is late in 64 % of the steps",
          120: "the chances of 60 loaders do not add up to 1"}),
    "nobody is late with the chance (59/60)^P, which is a half where P = log 2 / log(60/59)",
)

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
