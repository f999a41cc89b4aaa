"""Quick questions of chapter 21, Recomputing activations."""

from itertools import combinations

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB
from dtlib.layout import divisors
from dtlib.memory import (
    one_slot_advances,
    segment_peak_bytes,
    selective_work_fraction,
    stage_segment_bytes,
)

# fmt: off
_LENGTHS = divisors(24)
_HELD = {k: segment_peak_bytes(24, k, state_bytes=0.1*GB, layer_bytes=1.5*GB) for k in _LENGTHS}
_LONGEST = max(k for k in _LENGTHS if _HELD[k] <= 10*GB)
_LEAST = min(_LENGTHS, key=_HELD.__getitem__)

_TAPE = 8_192 + 157_696  # of a layer, its input included
_ALONE = segment_peak_bytes(8, 1, state_bytes=8_192, layer_bytes=_TAPE)
_CORE = selective_work_fraction(hidden=12288, seq=2048)
_SAME_SHARE = next(
    s for s in range(1024, 65536, 1024)
    if selective_work_fraction(12288, s) >= selective_work_fraction(64, 128))
_RESULTS = {"A": (6, 9.0), "B": (4, 5.6), "C": (3, 3.9)}  # MB, and GFLOP that they spare
_SETS = [names for many in (1, 2, 3) for names in combinations(_RESULTS, many)
         if sum(_RESULTS[name][0] for name in names) <= 7]
_BEST = max(_SETS, key=lambda names: sum(_RESULTS[name][1] for name in names))
_STAGE = {k: [stage_segment_bytes(80, k, 2, 34, p=4, m=8, rank=rank) for rank in range(4)]
          for k in (1, 2)}
_LOWER = [str(rank) for rank in range(4) if _STAGE[2][rank] < _STAGE[1][rank]]

eight_layers_one_slot = question(
    "pause-eight-layers-one-slot",
    "A chain of eight layers. Only its input is kept, and there is room for the tape of one layer "
    "at a time. How many times, in all, is a layer run without a tape until the chain has gone "
    "back?",
    Asked("runs", one_slot_advances(8), slips={
          7: "that brings back the input of the last layer; and of the one before it?",
          8 * 7: "the way to an earlier layer is shorter",
          8 * 9 / 2: "the last run of each layer has a tape"}),
    "seven for the last layer, six for the one before it, and so on down to none",
)

every_layer_alone = question(
    "pause-every-layer-alone",
    "Eight equal layers: a state takes 8,192 bytes, and a layer's tape 157,696 bytes besides its "
    "input. With segments of one layer, what is the most that is held?",
    Asked("held", _ALONE, "bytes", {
          _ALONE + 8_192: "the last segment's input needs no slot",
          _ALONE - 8_192: "the tape holds the layer's input as well",
          8 * _TAPE: "that is with everything kept"}),
    "seven kept inputs, and all of one layer",
)

other_masks = question(
    "pause-other-masks",
    "The repeat draws other dropout masks than the first run did. Where does this step show it?",
    Chosen("shown in", "the gradients alone", {
           "the loss and the gradients": "from which run does the loss come?",
           "an error": "in what do two masks differ, and who compares them?",
           "nothing at all": "through which masks does the backward pass go?"}),
    "the loss is the first run's, the tape the second's",
)

weights_in_between = question(
    "pause-weights-in-between",
    "A segment runs forward, an optimizer changes its weights, and the segment is run again for "
    "its backward pass. Suppose that nobody notices. Of which network are its gradients?",
    Chosen("network", "of neither", {
           "of the one before the change": "with which weights was the tape made?",
           "of the one after the change": "which weights made the loss that went back?"}),
    "what comes in from above is the old network's, the tape is the new one's",
)

full_over_selective = question(
    "pause-full-over-selective",
    "For GPT-3 the attention core alone adds 0.9 % to a step's work. How many times as much does "
    "it add to run every layer again, with backward twice the work of forward?",
    Asked("times", 1 / 3 / _CORE, slips={
          1 / _CORE: "a repeat is a forward pass; what share of the step is that?",
          1 / 2 / _CORE: "over the whole step, forward and backward"}),
    "a third over 0.9 %: most of the bytes for very little of the work",
)

only_the_softmax = question(
    "pause-only-the-softmax",
    "Of a layer, its input and the result of the softmax are kept, and nothing else. What share of "
    "the step's products does the repeat compute again (backward is twice forward)?",
    Asked("share", 1 / 3, slips={
          selective_work_fraction(64, 128): "one more than the core: who computes the values?",
          1: "over the whole step, not over its forward pass"}),
    "all products of the forward pass: the softmax spares only itself",
)

same_share_for_gpt_3 = question(
    "pause-same-share-for-gpt-3",
    "This layer is 64 wide and has 128 tokens. GPT-3 is 12,288 wide. For how many tokens would "
    "the repeated core be the same share of the step's work, 8.3 %?",
    Asked("tokens", _SAME_SHARE, slips={
          128: "the share depends on tokens and width",
          2048 * selective_work_fraction(64, 128) / _CORE:
              "the step's work has the scores in it, too, so the share grows more slowly"}),
    "only the ratio of tokens to width counts, here two",
)

three_results = question(
    "pause-three-results",
    "There is room for 7 MB. Result A has 6 MB and spares 9 GFLOP, B has 4 MB and spares 5.6, C "
    "has 3 MB and spares 3.9. What do you keep?",
    Chosen("keep", " and ".join(_BEST), {
           "A": "it spares most for each byte; but what of the megabyte that stays empty?",
           "A and C": "do they fit?",
           "A and B": "do they fit?"}),
    "9.5 GFLOP against 9: what is kept is kept whole, so the best per byte may lose",
)

sums_sent_again = question(
    "pause-sums-sent-again",
    "A tensor-parallel layer has two all-reduces in its forward pass and two as large in its "
    "backward pass. Nothing but its input is kept, and the whole layer is run again. How many "
    "times as many bytes does the step send?",
    Asked("times", (2 * 2 + 2) / (2 + 2), slips={
          2: "are the backward pass's own sums sent again?",
          4 / 3: "that is the work: backward is twice forward there, and here?"}),
    "forward sums twice, backward sums once",
)

segments_of_two = question(
    "pause-segments-of-two",
    "Four stages of 20 layers, with 4, 3, 2 and 1 micro-batches in flight. A layer with its tape "
    "takes as much as 17 states. Segments of two layers instead of one: on which stages does the "
    "most that is held become less?",
    Chosen("stages", ", ".join(_LOWER), {
           "all of them": "a longer tape costs 17 states more; what does stage 3 save?",
           "none of them": "how many kept inputs does stage 0 save?",
           "0 alone": "one tape more against 10 inputs fewer for each micro-batch"}),
    "ten inputs fewer for each micro-batch in flight, against one layer's tape more",
)

running_mean = question(
    "pause-running-mean",
    "A batch norm moves its running mean a tenth of the way towards the mean of each batch that it "
    "sees. It lies in a segment that is run again. What share of the way has the running mean gone "
    "after one step?",
    Asked("share", 1 - (1 - 0.1) ** 2, slips={
          0.1: "how often does it see the batch?",
          0.2: "the second time, how much of the way is left?"}),
    "a tenth, and a tenth of the remaining nine",
)

seen_by_shapes = question(
    "pause-seen-by-shapes",
    "The determinism check compares shapes, types and devices. Which of these repeats does it "
    "refuse?",
    Chosen("refused", "a token goes to another expert", {
           "dropout draws another mask": "which shape has another mask?",
           "an optimizer has changed the weights": "do they have another shape now?",
           "a sum is added in another order": "only its last digits differ"}),
    "the experts then get other numbers of tokens; the rest passes and needs other means",
)

what_may_change_meanwhile = question(
    "ask-what-may-change-meanwhile",
    "A segment with dropout has run forward, only its input was kept, and it runs again later. In "
    "between one thing changes, and nobody sets it back. After which change are the segment's "
    "gradients still those of the plain run?",
    Chosen("change", "weights of later layers, gone back already", {
           "the segment's own weights": "which network would the tape belong to?",
           "the kept input": "what does the repeat start from?",
           "the state of the random generator": "which numbers does dropout draw again?"}),
    "the tape is a function of input, weights and random numbers of the segment, nothing else",
)

repeated_within_ten_gigabytes = question(
    "ask-repeated-within-ten-gigabytes",
    "24 equal layers: a state takes 0.1 GB, a layer keeps 1.5 GB, its input included. Equal "
    "segments, the last taped at once, may hold 10 GB and shall repeat as little as possible. By "
    "which share does a step's work grow (backward is twice forward)?",
    Asked("share", (1 - _LONGEST / 24) / 3, slips={
          (1 - _LEAST / 24) / 3: "these hold least; the limit is wider",
          1 - _LONGEST / 24: "that is a share of the forward pass",
          1 / 3: "is the last segment repeated?"}),
    "the longest segments that fit; the last one is not repeated",
)

worth_of_a_kept_byte = question(
    "ask-worth-of-a-kept-byte",
    "A layer is 6,144 wide, its heads are 128 wide, the sequence has 4,096 tokens; numbers of 2 "
    "bytes. How many times as much work does a kept byte of the queries (input times weights) "
    "spare as a kept byte of the scores (queries times keys)?",
    Asked("times", (2 * 6144 / 2) / (2 * 128 / 2), slips={
          1: "over how many terms does each of the two products sum?",
          6144 / 4096: "for each byte that is kept, not for all of them together",
          128 / 6144: "which of the two products sums over more terms?"}),
    "two operations for each term of the sum: the longer sum is worth its bytes",
)
