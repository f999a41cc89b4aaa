"""Quick questions of chapter 20, Sharding the training state."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.memory import model_state_bytes, zero_sent_bytes

# fmt: off
_SENT = [zero_sent_bytes(8e9, stage, 16, 1, 2) for stage in range(4)]
_HELD = model_state_bytes(8e9, zero=3, dp=16)

held_in_stage_three = question(
    "ask-held-in-stage-three",
    "8 billion parameters in mixed precision on 16 ranks, everything cut (stage 3). How much state "
    "does a rank hold?",
    Asked("held", _HELD, "bytes", {
          model_state_bytes(8e9, 0, 16): "that is all of it",
          model_state_bytes(8e9, 2, 16): "in stage 3 the weights are cut as well",
          model_state_bytes(8e9, 1, 16): "in stage 3 weights and gradients are cut as well"}),
    "a sixteenth of sixteen bytes: one byte for each parameter",
)

price_of_stage_three = question(
    "ask-price-of-stage-three",
    "One forward and one backward pass in a step. How many times as many bytes does a rank send "
    "in stage 3 as in stage 2?",
    Asked("times", _SENT[3] / _SENT[2], slips={
          2: "the sum of the gradients is scattered once, the weights are gathered twice",
          3: "and what does stage 2 send?"}),
    "the weights are gathered once more",
)

price_of_stage_two = question(
    "ask-price-of-stage-two",
    "The same step: how many times as many bytes does a rank send in stage 2 as without any "
    "sharding?",
    Asked("times", _SENT[2] / _SENT[0], slips={
          0.5: "the updated weights must come back to everybody",
          1.5: "that is stage 3"}),
    "an all-reduce is a reduce-scatter and an all-gather, with the update between them",
)
