"""Quick questions of chapter 18, Expert parallelism."""

from fractions import Fraction

from dtlib.collectives import ring_all_reduce_sent_bytes
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, catalog, expert_parallel_width
from dtlib.parallelism import busiest_expert_time, expert_capacity, routed_bytes

# fmt: off
_SENT, _RECEIVED, _LOADS = (5, 2, 0, 1), (5, 0, 3, 4), (90, 70, 30, 10)
_PLACES = expert_capacity(tokens_per_rank=100, chosen=2, experts=4, capacity_factor=1.2)
_SCORES = (0.6, 0.45, 0.3)
_BIASED = (0.6 - 0.1, 0.45 + 0.1, 0.3 + 0.1)
_CHOSEN = _BIASED.index(max(_BIASED))


def _gradient_of_score(first, second, along_first, along_second):
    total = first + second
    mixture = (first * along_first + second * along_second) / total
    return float((along_first - mixture) / total)


def _balance(shares, probabilities):
    return len(shares) * sum(f * p for f, p in zip(shares, probabilities, strict=True))


def _pace(busiest):
    return busiest_expert_time(1, 2, 1, 1, peak=1, busiest=busiest)


_GRADIENT = _gradient_of_score(Fraction(4, 10), Fraction(2, 10), 3, 9)
_WANTED = dict(zip("ABCDEF", (0, 1, 0, 0, 1, 1), strict=True))
_ON_RANK_ONE = " ".join(letter for letter, expert in _WANTED.items() if expert == 1)
_JOURNEYS = routed_bytes(tokens_per_rank=8, chosen=2, hidden=16, ep=4, element_bytes=8)
_EVERYTHING = 63 * 1  # rows that a rank receives for each of its own, in a gather
_COPIES = routed_bytes(1, chosen=8, hidden=1, ep=64, element_bytes=1) / 2
_H100 = catalog["h100-sxm"].peak("bf16")
_RATE = expert_parallel_width(10**9, 2, _H100, beta=1) / 2048
_SIX_TO_FOUR = _balance((0.6, 0.4), ((6 * 0.51 + 4 * 0.01) / 10, (6 * 0.49 + 4 * 0.99) / 10))
_PORT = catalog["ib-ndr400"].beta
_WHOLE = 175*GB * 4  # bytes of gradients
_REPLICAS = " and ".join(str(rank) for rank in range(4) if rank % 2 == 0)

gradient_of_a_score = question(
    "pause-gradient-of-a-score",
    "A token's two experts have the scores 0.4 and 0.2, and its gates are these, divided by their "
    "sum. The gradient v that arrives gives ⟨v, E⟩ = 3 for the first expert and 9 for the second. "
    "What is the derivative of the loss by the first score?",
    Asked("derivative", _GRADIENT, slips={
          3: "a larger first gate makes the second smaller",
          -2: "from score to gate there is a division",
          -5: "the mixture has more of one than of the other"}),
    "negative, so a step raises the score: here a small product with v is a good result",
)

rows_of_rank_one = question(
    "pause-rows-of-rank-one",
    "Rank 0 has expert 0 and the tokens A B C, rank 1 has expert 1 and D E F. A, C and D want "
    "expert 0, the others expert 1. The tokens travel to their experts. Which rows lie on rank 1 "
    "then, and in which order?",
    Chosen("rows", _ON_RANK_ONE, {
           "E F B": "what arrives is lined up by sender, and a rank is a sender to itself",
           "D E F": "where is the expert that D wants?",
           "B D E F": "where is the expert that D wants?"}),
    "first what rank 0 sent, then what rank 1 sent to itself",
)

a_rank_that_nobody_wants = question(
    "pause-a-rank-that-nobody-wants",
    "In the next cell rank 2 has the tokens G, H and I and the experts 4 and 5, which no token "
    "wants. May rank 2 leave out one of the two all-to-alls?",
    Chosen("leave out", "neither", {
           "dispatch": "where do its own tokens go?",
           "combine": "where do the results for its own tokens come from?",
           "both": "what becomes of G, H and I?"}),
    "it receives nothing in the first and sends nothing in the second, but its tokens are in both",
)

thirteen_of_24 = question(
    "pause-thirteen-of-24",
    "24 copies, four ranks with two experts each. Rank 3 has 13 of the copies, 11 of them for one "
    "of its experts. A copy takes equally long everywhere. How many times as long as with even "
    "loads do the experts take?",
    Asked("times", _pace(13 / 6) / _pace(1), slips={
          13 / 24: "that is a share of all copies; what would an even load be?",
          11 / 3: "the rank computes both of its experts",
          13 / 8: "even loads count all four ranks, the idle one too"}),
    "the busiest rank over the mean: the layer ends with it",
)

everything_is_summed = question(
    "pause-everything-is-summed",
    "Somebody sums the gradients of all parameters over all four ranks, those of the experts too. "
    "What shows the mistake in this step?",
    Chosen("shown by", "the gradients of the experts", {
           "an error about shapes": "in what do expert 0 and expert 2 differ?",
           "the loss": "when was it computed, before the sum or after?",
           "the gradient of the input": "when did it leave the layer, before the sum or after?",
           "the gradient of the router": "does it need this sum or not?"}),
    "they become sums of different experts' gradients; all else in this step is right",
)

bytes_of_a_step = question(
    "pause-bytes-of-a-step",
    "This layer on four ranks: 8 tokens a rank, two experts each, rows of 16 numbers of 8 bytes. "
    "Suppose the loads are even. How much does a rank send in forward and backward pass together, "
    "counts left out?",
    Asked("sent", 2 * _JOURNEYS, "bytes", {
          _JOURNEYS: "the backward pass makes journeys, too",
          _JOURNEYS / 2: "out, back, and both once more in the backward pass",
          2 * _JOURNEYS * 4 / 3: "some of the copies are at home already",
          _JOURNEYS * 2 / 3: "some copies are at home, and the backward pass travels, too"}),
    "four journeys of twelve rows; real loads scatter around that",
)

rate_for_fine_experts = question(
    "pause-rate-for-fine-experts",
    "Experts with an inner width of 2,048, on many ranks, in bf16, on GPUs of 989 TFLOP/s. How "
    "fast must a rank's port be, per direction, for the messages to hide?",
    Asked("rate", _RATE, "bytes/s", {
          _RATE * 3 / 2: "it need not be the whole ratio of FLOP/s to bytes/s",
          _RATE / 2: "a number has two bytes"}),
    "between a port of the network and NVLink, which is why the first hides nothing",
)

eight_experts_on_eight_ranks = question(
    "pause-eight-experts-on-eight-ranks",
    "Sixty-four ranks, and every token has eight experts, each on another rank. How many times as "
    "many bytes does a rank receive if all tokens are gathered as if only copies are sent?",
    Asked("times", _EVERYTHING / _COPIES, slips={
          64: "and how many copies of a token are sent?",
          _COPIES / _EVERYTHING: "upside down"}),
    "a gather makes a copy for each rank, an all-to-all one for each expert",
)

token_without_a_place = question(
    "pause-token-without-a-place",
    "A token finds no place at either of its experts. The block adds the layer's result to the "
    "layer's input. What is lost in this step?",
    Chosen("lost", "what this layer would learn from it", {
           "its loss": "what does the block pass on if the layer's result is zero?",
           "its gradient to the layers below": "which way around the layer is there?",
           "nothing, it comes again in the next step": "has the next step the same tokens?"}),
    "it passes by on the residual path, forward and backward",
)

six_to_four = question(
    "pause-six-to-four",
    "Two experts, ten tokens. Six choose the first, each with a probability of 0.51 for it; "
    "four choose the second, each with 0.99. The loss of even loads is 1 (leave out α). What is it "
    "here?",
    Asked("loss", _SIX_TO_FOUR, slips={
          _balance((0.6, 0.4), (0.6, 0.4)): "p is a mean of probabilities, not of choices",
          _SIX_TO_FOUR / 2: "the sum is multiplied by the number of experts",
          _balance((0.6, 0.4), (0.51, 0.99)): "a mean takes all ten tokens"}),
    "below that of even loads: where more tokens go, the mean probability is smaller",
)

balance_of_each_rank = question(
    "pause-balance-of-each-rank",
    "Two experts, two ranks, equally many tokens. All tokens of rank 0 choose expert 0 with "
    "probability 1, all of rank 1 expert 1. Each rank computes the loss (leave out α) from its own "
    "tokens; what is the mean of the two?",
    Asked("mean", (_balance((1, 0), (1, 0)) + _balance((0, 1), (0, 1))) / 2, slips={
          _balance((0.5, 0.5), (0.5, 0.5)): "that is for all tokens together; and one rank's?",
          4: "the mean, not the sum"}),
    "as high as for a router that has collapsed, though the experts have even loads",
)

what_writing_lacks = question(
    "pause-what-writing-lacks",
    "In training every expert takes the tokens of a whole text that score highest with it. Then "
    "the model writes a text, one token after the other. What is missing when a token's experts "
    "must be chosen?",
    Chosen("missing", "the tokens after it", {
           "the tokens before it": "these are written; which ones compete with them in training?",
           "the scores": "what does the router need, besides the token itself?",
           "free places": "how many tokens have taken one so far?"}),
    "in training they competed for the same places, and now they do not exist yet",
)

tokens_out_of_the_node = question(
    "pause-tokens-out-of-the-node",
    "Data parallelism over whole nodes of eight H100 (989 TFLOP/s in bf16), with the eight ports "
    "of 50 GB/s. Its length, behind the backward pass, is one times ρ. How many tokens must a GPU "
    "have?",
    Asked("tokens", _H100 / (8 * _PORT), slips={
          _H100 / _PORT: "how many ports does the ring have?",
          _H100 / catalog["nvlink4"].beta: "that stays in the node"}),
    "the FLOP/s over the bytes/s of all eight ports",
)

sixteen_stages = question(
    "pause-sixteen-stages",
    "The same model of 175 billion parameters on the same 1,024 GPUs, but 16 stages: 8 share every "
    "layer, and there are 8 replicas. How much does a rank send in the all-reduce of its 32-bit "
    "gradients?",
    Asked("sent", ring_all_reduce_sent_bytes(_WHOLE / 128, 8), "bytes", {
          ring_all_reduce_sent_bytes(_WHOLE / 64, 8): "more stages: what part has a rank now?",
          ring_all_reduce_sent_bytes(_WHOLE / 128, 16): "how many replicas are there now?",
          _WHOLE / 128: "that is what it has; a ring sends in two phases"}),
    "half the gradients, and a little less of them sent: two ways, seven eighths",
)

replicas_of_an_expert = question(
    "pause-replicas-of-an-expert",
    "Four ranks as 2 copies × 2 that share the experts, neighbours share. Of four experts, the "
    "first of each pair of neighbours has 0 and 1, the second 2 and 3. Between which ranks is the "
    "gradient of expert 0 summed?",
    Chosen("ranks", _REPLICAS, {
           "0 and 1": "which experts does rank 1 have?",
           "0, 1, 2 and 3": "all of them have the router; and expert 0?",
           "no ranks": "have its tokens all come to one rank?"}),
    "the ranks with the same experts: each has seen the tokens of its own pair",
)

once_to_a_node = question(
    "pause-once-to-a-node",
    "A token has eight experts, two on each of four other nodes. It is sent once to a node and "
    "comes back once, in 1 byte a number out and 2 bytes home. What share is that of the bytes "
    "that a copy for each expert, with 2 bytes both ways, sends over the network?",
    Asked("share", 4 * (1 + 2) / (8 * (2 + 2)), slips={
          4 / 8: "the numbers are shorter on one way as well",
          3 / 4: "and how often does the token cross the network?",
          4 / 8 / 2: "only one of the two ways is in 1 byte"}),
    "half the journeys, and three bytes for four",
)

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
