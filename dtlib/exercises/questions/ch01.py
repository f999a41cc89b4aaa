"""Quick questions of chapter 1, One machine is not enough."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.foundations import adam_state_bytes, time_wall_params, training_flops

# fmt: off
_LARGER = time_wall_params(100, 1, 1, 1, 20) / time_wall_params(1, 1, 1, 1, 20)

state_of_three_billion = question(
    "ask-state-of-three-billion",
    "A model of 3 billion parameters is trained with Adam in mixed precision. How many GB do "
    "weights, gradients and optimizer need together?",
    Asked("state", adam_state_bytes(3e9), "bytes", {
          adam_state_bytes(3e9) / 8: "that is the weights in two bytes alone",
          adam_state_bytes(3e9) / 4: "count all that Adam keeps for a parameter"}),
    "sixteen bytes for each parameter, whatever the weights are computed in",
)

work_of_three_billion = question(
    "ask-work-of-three-billion",
    "The same model reads 60 billion tokens. How many operations does the whole run take?",
    Asked("operations", training_flops(3e9, 60e9), slips={
          training_flops(3e9, 60e9) / 3: "that is the forward pass",
          training_flops(3e9, 60e9) / 1.5: "that is the backward pass"}),
    "six for each parameter and token: two forward, four backward",
)

hundred_times = question(
    "ask-hundred-times",
    "You get 100 times as many GPUs, the deadline stays, and tokens stay in proportion to the "
    "model. How many times as large may the model be?",
    Asked("times", _LARGER, slips={
          _LARGER ** 2: "a larger model needs more tokens as well"}),
    "the work grows with the square of the model",
)
