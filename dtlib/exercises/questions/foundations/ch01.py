"""Quick questions of chapter 1, One machine is not enough."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import (
    adam_state_bytes,
    attention_flops_fraction,
    catalog,
    exchange_wall_ranks,
    fleet_step_time,
    time_wall_params,
    training_flops,
)
from dtlib.scaling_laws.loss_surface.surface import BESIROGLU

# fmt: off
_LARGER = time_wall_params(100, 1, 1, 1, 20) / time_wall_params(1, 1, 1, 1, 20)
_SIX = training_flops(1, 1)
_LONG, _SHORT = (1 + attention_flops_fraction(4096, seq) for seq in (32768, 4096))
_PEAK, _PORTS = catalog["h100-sxm"].peak("bf16"), catalog["dgx-h100"].ring_bandwidth(8)
_NEW_WALL, _OLD_WALL = (
    exchange_wall_ranks(faster * _PEAK, 0.4, 4e6, wider * _PORTS)
    for faster, wider in ((2.5, 2), (1, 1)))
_ON_64, _ON_256 = (
    fleet_step_time(compute=64 * 0.3, P=P, comm=0.1, sync=0, overlap=0) for P in (64, 256))
_REPEATED = (_SIX + 2) / _SIX
_, _, _ALPHA, _, _BETA = BESIROGLU
_SIZE_POWER = _BETA / (_ALPHA + _BETA)
_SIZE_GROWS, _TOKENS_GROW = 100**_SIZE_POWER, 100 ** (1 - _SIZE_POWER)

table_that_is_looked_up = question(
    "pause-table-that-is-looked-up",
    "In a small model an eighth of all parameters are a table in which the tokens of the text are "
    "looked up. Its sequences are so short that attention hardly counts. How many operations for "
    "each parameter and token will a counter of matrix products find?",
    Asked("operations", _SIX * 7 / 8, slips={
          _SIX: "how many multiplications does it take to look something up?",
          _SIX * 8 / 7: "does the counter find more than six or fewer?",
          _SIX - 2 / 8: "the backward pass of a look up has no products, either"}),
    "for the table nothing is multiplied, forward or backward",
)

longer_sequences = question(
    "pause-longer-sequences",
    "A model of width 4,096, and attention without a mask. The same text is cut into sequences of "
    "32,768 tokens instead of 4,096. How many times as much arithmetic does the run need?",
    Asked("times", _LONG / _SHORT, slips={
          8: "does everything that a token costs grow with the sequence?",
          64: "the number of tokens in the whole run stays",
          _LONG: "that is compared with no attention at all; what do the short sequences cost?"}),
    "attention grows eightfold, and the weights cost what they did",
)

ten_points_of_mfu = question(
    "pause-ten-points-of-mfu",
    "At the rated speed a run would take 1,000 GPU-hours. It is planned with an MFU of 50 % and "
    "reaches 40 %. How many GPU-hours more than planned does it take?",
    Asked("GPU-hours", 1000 / 0.4 - 1000 / 0.5, slips={
          100: "hours are the rated ones over the share, not times it",
          1000 / 0.4: "that is all it takes; what was planned?",
          1000 / 0.5: "that is what was planned"}),
    "2,500 instead of 2,000: ten points of 50 are a quarter more hours",
)

tokens_of_a_larger_budget = question(
    "pause-tokens-of-a-larger-budget",
    "By this law the best size grows as the work to the power 0.513. A budget of work grows a "
    "hundred times, and is again divided in the best way. How many times as many tokens are there?",
    Asked("times", _TOKENS_GROW, slips={
          _SIZE_GROWS: "that is the size; what does it leave of the work?",
          100: "the size grows, too, and the work is a product",
          10: "that holds where both powers are a half"}),
    "the two factors make the hundred together, so the two powers add up to 1",
)

wall_of_new_cards = question(
    "pause-wall-of-new-cards",
    "New cards compute 2.5 times as fast, and their ports send twice as much. MFU and the tokens "
    "of a step stay, but the model gets ten times the parameters. How many times as many ranks "
    "stand at the third wall?",
    Asked("times", _NEW_WALL / _OLD_WALL, slips={
          10 * _NEW_WALL / _OLD_WALL: "which side of the balance has the parameters in it?",
          _OLD_WALL / _NEW_WALL: "if cards compute faster, does talking catch up sooner or later?",
          2: "the computing is faster as well"}),
    "the parameters cancel, and arithmetic has outgrown the ports: the wall came nearer",
)

from_64_to_256 = question(
    "pause-from-64-to-256",
    "On 64 ranks a step computes for 300 ms, then communicates for 100 ms, as it would on any "
    "number of ranks. How many times as fast is the same step on 256 ranks?",
    Asked("times", _ON_64 / _ON_256, slips={
          4: "which part of the step is divided further?",
          3: "the share that computes does not stay the same",
          1 / (0.25 + 0.75 / 256): "a quarter is the share on 64 ranks, not on one"}),
    "computing shrinks to 75 ms, so talking is now the larger part",
)

hidden_without_a_core = question(
    "pause-hidden-without-a-core",
    "Two processes compute without a pause on the two cores of a computer. Meanwhile a thread in "
    "each runs the all-reduce in the background. How much of the all-reduce will be hidden?",
    Chosen("hidden", "a small part", {
           "all of it": "who copies and adds the bytes, and where does that thread run?",
           "most of it": "a thread works and waits; in which of the two can others compute?",
           "nothing": "a thread works and waits; in which of the two can others compute?"}),
    "while the thread waits, its core computes; while it moves bytes, that core does not",
)

utilisation_at_the_wall = question(
    "pause-utilisation-at-the-wall",
    "On 8 GPUs a run reaches an MFU of 48 %, and a tenth of each step is communication. On 8,000 "
    "it communicates as long as it computes. Nothing overlaps, and the products run as before. "
    "What is the MFU there?",
    Asked("MFU", 0.48 / 0.9 / 2, slips={
          0.48 / 2: "did the eight GPUs compute all the time?",
          0.48: "the time of a run has its communication in it",
          0.48 * 0.9 / 2: "while it computes, is the speed above or below that of the whole step?",
          0.48 * 0.9: "the tenth is inside the 48 % already"}),
    "53 % while it computes, and half of the step it does not",
)

profiler_says_60 = question(
    "pause-profiler-says-60",
    "To save memory, a program runs the whole forward pass a second time. A counter of the "
    "operations that run says that the GPUs do 60 % of their rated speed. What is the MFU?",
    Asked("MFU", 0.60 / _REPEATED, slips={
          0.60: "does the mathematics ask for everything that the counter sees?",
          0.60 * _REPEATED: "is the work that is asked for more than what runs, or less?",
          0.60 * 2 / 3: "how many operations is a forward pass, and how many ran in all?"}),
    "six operations of the eight that run are asked for",
)

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
