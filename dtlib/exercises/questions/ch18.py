"""Quick questions of chapter 18, Expert parallelism."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.parallelism import expert_capacity

# fmt: off
_SENT, _RECEIVED, _LOADS = (5, 2, 0, 1), (5, 0, 3, 4), (90, 70, 30, 10)
_PLACES = expert_capacity(tokens_per_rank=100, chosen=2, experts=4, capacity_factor=1.2)
_SCORES = (0.6, 0.45, 0.3)
_BIASED = (0.6 - 0.1, 0.45 + 0.1, 0.3 + 0.1)
_CHOSEN = _BIASED.index(max(_BIASED))

rows_on_the_way_back = question(
    "ask-rows-on-the-way-back",
    "Four ranks share the experts, and nothing is dropped. In the dispatch rank 0 sends 5, 2, 0 "
    "and 1 rows to ranks 0, 1, 2 and 3, and receives 5, 0, 3 and 4 rows from them. How many rows "
    "does it send to other ranks in the combine, forward?",
    Asked("rows", sum(_RECEIVED[1:]), slips={
          sum(_SENT[1:]): "those are its own rows: where are they now, and what lies here?",
          sum(_SENT): "those are its own rows: where are they now, and what lies here?",
          sum(_RECEIVED): "some of these are at home already"}),
    "what has arrived goes back: the same all-to-all with the counts swapped",
)

dropped_by_four_experts = question(
    "ask-dropped-by-four-experts",
    "100 tokens go to two experts each; the four experts get 90, 70, 30 and 10 copies. Each has "
    "places for 1.2 times the mean load. How many copies are dropped in all?",
    Asked("copies", sum(max(0, load - _PLACES) for load in _LOADS), slips={
          0: "can a copy use a place that is free at another expert?",
          _LOADS[0] - _PLACES: "is the busiest expert the only one that is full?",
          sum(max(0, load - 50) for load in _LOADS): "an expert has more places than that"}),
    "each expert counts for itself: places that are free elsewhere help nobody",
)

gate_after_a_step_of_bias = question(
    "ask-gate-after-a-step-of-bias",
    "Three experts had biases of 0 and got 70, 30 and 20 tokens; the biases now move by γ = 0.1. "
    "For the next token their scores are 0.6, 0.45 and 0.3, no bias added yet. It goes to one "
    "expert; gates are not divided by their sum. What is its gate?",
    Asked("gate", _SCORES[_CHOSEN], slips={
          _SCORES[0]: "who is chosen once the biases have moved?",
          _BIASED[_CHOSEN]: "the bias is there to choose; is it in the gate?",
          _BIASED[0]: "who is chosen now, and is the bias in the gate?"}),
    "the bias moves the choice, and never the gate",
)
