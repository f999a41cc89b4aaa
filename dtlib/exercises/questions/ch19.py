"""Quick questions of chapter 19, Where the memory goes."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.questions.question import question
from dtlib.memory import logit_bytes, model_state_bytes

# fmt: off
_STATE = model_state_bytes(13e9, zero=1, dp=8)
_LOGITS = logit_bytes(micro_batch=1, seq=4096, vocab=128_000, tp=1)

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
