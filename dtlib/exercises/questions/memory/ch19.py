"""Quick questions of chapter 19, Where the memory goes."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, GiB, TransformerSpec, catalog
from dtlib.memory import (
    AllocatorModel,
    Life,
    LiveSet,
    logit_bytes,
    model_state_bytes,
    reserve_bytes,
)
from dtlib.models.activations import kept_tensors

# fmt: off
_STATE = model_state_bytes(13e9, zero=1, dp=8)
_LOGITS = logit_bytes(micro_batch=1, seq=4096, vocab=128_000, tp=1)

_LIVES = LiveSet(
    [Life("kept by layer 1", "activations", 2, born=0, dies=4),
     Life("kept by layer 2", "activations", 2, born=1, dies=3),
     Life("gradient of layer 2", "gradients", 3, born=2, dies=5),
     Life("gradient of layer 1", "gradients", 3, born=3, dies=5)],
    ["forward 1", "forward 2", "backward 2", "backward 1", "update"])
_HBM = catalog["h100-sxm"].hbm_bytes / 1e9
_LAYER = TransformerSpec(
    "one layer", layers=1, hidden=4096, heads=32, vocab=8, positions=2048, dropout=False)
_ROWS = kept_tensors(_LAYER, 2048, experts=False, flash=False)  # of one token
_KEPT = 2048 * sum(row.numbers * row.bytes_each for row in _ROWS)
_SCORE_ROWS = [row for row in _ROWS if "score" in row.name]
_OF_A_SCORE = sum(row.numbers * row.bytes_each for row in _SCORE_ROWS) / (32 * 2048)
_HELD_BY_ALL = 8 * model_state_bytes(7e9, zero=1, dp=8)
_SHARE = AllocatorModel().reserve_fraction

gradients_larger_than_activations = question(
    "pause-gradients-larger-than-activations",
    "The two layers again, with the sizes changed: each keeps 2 units in the forward pass and "
    "leaves a gradient of 3. How full is memory at its fullest moment?",
    Asked("units", _LIVES.peak_bytes, slips={
          10: "the peaks of the two kinds come at different moments",
          7: "that is one moment; and the next one?",
          6: "when the last gradient is made, what is still there?"}),
    "the fullest moment has moved to the end of the backward pass: two units and two gradients",
)

thousand_small_steps = question(
    "pause-thousand-small-steps",
    "A weight of 1 in bf16. A thousand times, 0.001 is added to it. What is it then?",
    Asked("weight", 1.0 if 0.001 < 1 / 512 else 2.0, slips={
          2: "is one step as large as half the gap to the next number?"}),
    "each step is less than half a gap, and the next one starts where this one did",
)

parameters_of_an_h100 = question(
    "pause-parameters-of-an-h100",
    "Model state alone, by the usual recipe, fills one H100 of 85.9 GB. How many billion "
    "parameters has the model?",
    Asked("billions", _HBM / model_state_bytes(1, 0, 1), slips={
          _HBM / 2: "that is the file alone",
          _HBM / 12: "weights and gradients are there, too",
          _HBM / 8: "how many bytes are there for each parameter?"}),
    "fewer than the 6.74 of the Llama, and not one token has been read",
)

silu_times_y = question(
    "pause-silu-times-y",
    "One line of the next output: silu(x) * y. How many bytes are kept for each number of x, in "
    "16 bits?",
    Asked("bytes", 3 * 2, slips={
          4: "what does the derivative of SiLU need, its input or its output? And the product?",
          2: "the product needs both of its factors",
          8: "a tensor that two operations keep is there once"}),
    "x for SiLU, and for the product silu(x) and y: three tensors",
)

scores_without_dropout = question(
    "pause-scores-without-dropout",
    "Take the dropout away. How many of the 5 bytes for each score are still kept?",
    Asked("bytes", _OF_A_SCORE, slips={
          4: "the softmax, and the input of the product: are these still two tensors?",
          3: "without dropout there is no mask"}),
    "the softmax itself enters the product: one tensor, kept once",
)

layer_without_dropout = question(
    "pause-layer-without-dropout",
    "One layer without dropout: 32 bytes for each number of the stream, 2 for each score. The "
    "width is 4,096, with 32 heads and one sequence of 2,048 tokens. How much does it keep?",
    Asked("kept", _KEPT, "bytes", {
          2048 * 4096 * 32: "that is one of the two terms",
          2048 * 4096 * (34 + 5 * 32 * 2048 / 4096): "that is with dropout",
          2048 * 4096 * 32 + 2 * 2048**2: "each head has scores of its own"}),
    "half of it scores: the two terms are equal here",
)

state_of_all_ranks = question(
    "pause-state-of-all-ranks",
    "Seven billion parameters, 16 bytes each, on 8 replicas with ZeRO stage 1. How much model "
    "state do all ranks hold together?",
    Asked("state", _HELD_BY_ALL, "bytes", {
          model_state_bytes(7e9, 0, 1): "that is one copy; what is there eight times?",
          8 * model_state_bytes(7e9, 0, 1): "the optimizer's twelve bytes are there once",
          _HELD_BY_ALL / 8: "that is one rank"}),
    "almost three copies' worth: weights and gradients are there eight times",
)

next_request = question(
    "pause-next-request",
    "A GPU of 80 GiB. Tensors use 60 GiB, PyTorch has reserved 70, and the driver sees 73 in use, "
    "all of it this process. How large a tensor can you ask for and be sure that it fits?",
    Asked("tensor", (80 - 73) * GiB, "bytes", {
          10 * GiB: "that lies between living tensors, and nobody says in how many pieces",
          (80 - 73 + 10) * GiB: "one tensor needs one piece",
          20 * GiB: "who else holds memory, and in how many pieces is the rest?"}),
    "only what the driver still has; the holes in what is reserved may all be smaller",
)

reserved_in_all = question(
    "pause-reserved-in-all",
    "A rank's model state is 60 GB, and at most 20 GB come and go in a step. How much has PyTorch "
    "reserved, by this fit and without its second constant?",
    Asked("reserved", 80*GB + reserve_bytes(_SHARE, 20*GB), "bytes", {
          80*GB + reserve_bytes(_SHARE, 80*GB): "the state is allocated once and makes no holes",
          80*GB: "that is in use; what is reserved and unused?"}),
    "the state, what comes and goes, and 15 % of the second",
)

textbook_against_reserved = question(
    "pause-textbook-against-reserved",
    "What was measured is memory that PyTorch had reserved. For how many of the eight runs does "
    "the textbook's equation predict too little?",
    Chosen("runs", "all eight", {
           "about half": "what it leaves out, does only every other run have it?",
           "none": "which of its terms could be too large, and what does it leave out?"}),
    "a reserve, buffers and temporaries are in every run, and in none of its terms",
)

an_error_of_103_percent = question(
    "pause-an-error-of-103-percent",
    "On the two H200 runs the textbook's error is 103.5 % on average. Does it predict too much or "
    "too little there?",
    Chosen("predicts", "too much", {
           "too little": "how far below what was measured can a prediction be, in percent?",
           "too much once, too little once": "then one would be more than 103.5 % too high; which "
                                             "term would do that to one run alone?",
           "this cannot be told": "how far below what was measured can a prediction be, in "
                                  "percent?"}),
    "a prediction of nothing would be 100 % too low",
)

reserve_of_another_run = question(
    "pause-reserve-of-another-run",
    "One run uses 85 GB and reserves 100. Another uses 60 GB, and its reserve is as large in "
    "proportion. How much is reserved and not in use?",
    Asked("unused", 60*GB * (100 / 85 - 1), "bytes", {
          60*GB * 0.15: "15 % of what?",
          15*GB: "that is the first run"}),
    "the share is that of what is in use, 17.6 %",
)

fullest_moment_of_step_one = question(
    "pause-fullest-moment-of-step-one",
    "Short sequences, so activations are few beside the 16 bytes of each parameter. At which "
    "moment is the first step fullest?",
    Chosen("moment", "the update", {
           "the loss": "which tensors are made after it?",
           "the end of the backward pass": "which tensors does Adam still have to make?",
           "the start of the forward pass": "no gradient is there yet, and what else?"}),
    "the moments are made there, while the gradients are still kept",
)

load_that_kills = question(
    "pause-load-that-kills",
    "A rank has two experts. With a mean load the tokens of these take 5 GB, and all else takes 60 "
    "GB; 72 GB can be in use. At how many times the mean load does the run die?",
    Asked("times", (72 - 60) / 5, slips={
          72 / 65: "only the experts' part grows with the load",
          72 / 60: "only the experts' part grows with the load",
          12: "how often do 5 GB go into what is left?"}),
    "what is left, over what a mean load needs: so a rank's account needs the worst load",
)

three_peaks = question(
    "pause-three-peaks",
    "Peaks of three steps, reset after each: 61, 74 and 76 GB. Which rise is a fault of the "
    "program?",
    Chosen("rise", "from step 2 to step 3", {
           "from step 1 to step 2": "what does the first update make?",
           "both": "what does the first update make?",
           "neither": "which tensors would step 3 have that step 2 had not?"}),
    "the first rise is Adam's moments; after that, something is kept from step to step",
)

state_with_stage_one = question(
    "ask-state-with-stage-one",
    "13 billion parameters, mixed precision, the optimizer's state cut among 8 replicas. How much "
    "state does a rank hold?",
    Asked("state", _STATE, "bytes", {
          model_state_bytes(13e9, 0, 8): "the optimizer's twelve bytes are cut",
          model_state_bytes(13e9, 3, 8): "weights and gradients stay whole"}),
    "four bytes stay whole, twelve are cut",
)

peaks_that_do_not_add = question(
    "ask-peaks-that-do-not-add",
    "Activations peak at the end of the forward pass, gradients at the end of the backward pass; "
    "gradients are freed after the update. The peak of both together is ...",
    Chosen("peak", "at most the sum of their peaks", {
           "the sum of their peaks": "are both at their peak at the same moment?",
           "the larger of their peaks": "in the backward pass both are there",
           "unknown without a run": "a bound needs no run: what can the two not exceed?"}),
    "peaks at different moments do not add up",
)

logits_of_a_long_word_list = question(
    "ask-logits-of-a-long-word-list",
    "One sequence of 4,096 tokens, a vocabulary of 128,000, no tensor parallelism. How much do the "
    "logits need, in 16 bits, and once more in 32 bits for the loss?",
    Asked("logits", _LOGITS, "bytes", {
          _LOGITS / 3: "that is once, in 16 bits",
          _LOGITS * 2 / 3: "that is once, in 32 bits"}),
    "a number for every word, for every token",
)
