"""Quick questions of chapter 14, Data parallelism."""

import math

from dtlib.collectives import ring_all_reduce_sent_bytes
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import MB, bucketed_time, ms
from dtlib.parallelism import overlapped_steps

# fmt: off
_SENT = ring_all_reduce_sent_bytes(2 * 7e9, 8)
_FOUR = bucketed_time(80*ms, 40*ms, 4, 0)
_IN_ORDER = overlapped_steps([10*ms, 40*ms, 30*ms, 50*ms], [8*ms] * 4)[-1]
_AS_READY = overlapped_steps([10*ms, 30*ms, 40*ms, 50*ms], [8*ms] * 4)[-1]
_DEFAULT_BUCKET = 2 * max(40e6, 256 * 1e6)

divided_twice = question(
    "pause-divided-twice",
    "Four ranks. Each divides the sum of its samples' losses by the number of samples in the whole "
    "batch, and then calls average_each. How many times the right gradient does every rank have?",
    Asked("times", 1 / 4, slips={
          1: "are parts of one sum added or averaged?",
          4: "is one division missing, or is there one too many?",
          1 / 16: "one of the two divisions belongs there"}),
    "parts are added and means are averaged; this program mixes the two conventions",
)

tolerance_of_a_loss = question(
    "pause-tolerance-of-a-loss",
    "In five steps of SGD the loss of the small GPT falls by a few hundredths. One of its 36 "
    "parameter tensors, a bias, is never averaged. A test compares the losses with those of one "
    "process and allows a difference of 0.0001. What does it do?",
    Chosen("the test", "it passes", {
           "it fails in the first step": "is that loss computed before or after the first update?",
           "it fails after some steps": "how much of the fall is due to one bias of 36?"}),
    "one bias has little to do with the loss; its gradient would have failed in the first step",
)

two_starts = question(
    "pause-two-starts",
    "Two replicas begin with different weights, by mistake. From then on every gradient is "
    "averaged over both, and each replica makes the same steps of plain SGD. What becomes of the "
    "difference of their weights?",
    Chosen("the difference", "it stays as it was", {
           "it grows": "what does each replica subtract from its weights?",
           "it shrinks": "what is averaged here, weights or what is subtracted from them?"}),
    "both subtract the same from different weights; that is why a wrapper sends the first weights",
)

shuffled_apart = question(
    "pause-shuffled-apart",
    "Four ranks shuffle the same 64 samples, each with a seed of its own, and each takes the first "
    "16 of its own order. What share of the samples do you expect on no rank at all?",
    Asked("share", (1 - 16 / 64)**4, slips={
          0: "does a rank know what the others have taken?",
          3 / 4: "one rank misses that; what do all four miss?",
          1 - (1 - 16 / 64)**4: "that is what somebody has"}),
    "the sampler needs one seed for all, and each rank its own place in the one order",
)

weight_used_twice = question(
    "pause-weight-used-twice",
    "The first and the last of 40 equal layers use the same weight, which is alone in its bucket. "
    "The backward pass takes 80 ms. After how long does this bucket's all-reduce start?",
    Asked("time", 80*ms, "s", {
          2*ms: "has the gradient all its contributions by then?",
          78*ms: "is the pass through the last layer that it reaches over by then?",
          40*ms: "which of the two layers does the backward pass reach last?"}),
    "nothing of it can hide: its last contribution comes from the first layer",
)

buckets_out_of_order = question(
    "pause-buckets-out-of-order",
    "Four buckets are complete after 10, 40, 30 and 50 ms of a backward pass. Each all-reduce "
    "takes 8 ms, one runs at a time, and they start in the order of the buckets. When is the last "
    "one over?",
    Asked("time", _IN_ORDER, "s", {
          _AS_READY: "may the third overtake the second?",
          (10 + 4 * 8)*ms: "a free network still waits for a bucket",
          (50 + 4 * 8)*ms: "does the first have to wait for the last?"}),
    "the third is ready early and waits; all ranks agree on an order, and it has a price",
)

all_reduces_of_two_minds = question(
    "pause-all-reduces-of-two-minds",
    "Three layers, each with a weight and a bias, 240 bytes of gradients in all. On rank 0 they "
    "fit into one bucket; on rank 1 a bucket is full as soon as it has one tensor. How many "
    "all-reduces does rank 1 begin?",
    Asked("all-reduces", 3 * 2, slips={
          3: "how many tensors has a layer?",
          1: "that is rank 0",
          240: "a tensor is never cut between two buckets"}),
    "rank 0 begins one, so even if the first pair met, five would wait for nobody",
)

after_the_exception = question(
    "pause-after-the-exception",
    "A program catches this exception and goes on. Its optimizer makes a step after every backward "
    "pass that ends without an error. When do the replicas first differ?",
    Chosen("they differ", "after the update of step 0", {
           "after the update of step 1": "which gradients did step 0 leave behind?",
           "never": "were the gradients of step 0 averaged, and did anything stop the optimizer?"}),
    "step 0 raised nothing and left every rank its own gradients",
)

two_heads_on_two_ranks = question(
    "pause-two-heads-on-two-ranks",
    "Two ranks with find_unused_parameters. Rank 0 has used the left head alone, rank 1 the right "
    "head alone. By itself, rank 0 would have the gradient g for the left head. How many times g "
    "does rank 1 have for it after the backward pass?",
    Asked("times", 1 / 2, slips={
          0: "when does a gradient stay None?",
          1: "what does rank 1 add, and by what is the sum divided?"}),
    "who has not used it adds a zero, and the mean is over both",
)

additions_in_pairs = question(
    "pause-additions-in-pairs",
    "In pairs: 1,536 numbers become 768 sums, these become 384, and so on. Through how many "
    "additions does each number pass at most?",
    Asked("additions", math.ceil(math.log2(1536)), slips={
          1535: "so many there are; through how many of them does one number pass?",
          768: "that is the first round; in how many of its additions is one number?",
          math.log2(1536): "what happens to the odd one?"}),
    "each of them rounds once, and a ring's first number passes through all 1,535",
)

ranks_or_micro_batches = question(
    "pause-ranks-or-micro-batches",
    "In fp32 two ranks add up their gradients. One process adds the gradients of the same two "
    "parts one after the other. How many of the elements differ in their bits?",
    Chosen("elements", "none", {
           "about half": "how many groupings does a sum of two numbers have?",
           "nearly all": "the parts are the same; can the order of two numbers be seen?"}),
    "two numbers have one grouping, and their order does not matter",
)

piece_of_a_bucket = question(
    "pause-piece-of-a-bucket",
    "Megatron-Core's default bucket on 256 ranks, with gradients of two bytes. A ring cuts it into "
    "as many pieces as there are ranks. How large is a piece?",
    Asked("piece", _DEFAULT_BUCKET / 256, "bytes", {
          2 * 40e6 / 256: "which of the two is larger on so many ranks?",
          _DEFAULT_BUCKET: "that is the whole bucket",
          1*MB: "how many bytes has each number?"}),
    "a million numbers for each rank: no piece is smaller than that, on any number of ranks",
)

gradients_of_seven_billion = question(
    "ask-gradients-of-seven-billion",
    "Eight ranks train 7 billion parameters, gradients in two bytes, summed by a ring. How much "
    "does each rank send in a step?",
    Asked("sent", _SENT, "bytes", {
          _SENT / 2: "a ring has two phases",
          2 * 7e9: "a ring sends a part of the vector, in two phases"}),
    "the number of tokens is not in it",
)

uneven_ranks = question(
    "ask-uneven-ranks",
    "One rank has 100 tokens that count, the other 300. Each takes the mean of its own loss, and "
    "DDP averages the gradients. How many times its due does a token of the first rank weigh?",
    Asked("times", (1 / 2 / 100) / (1 / 400), slips={
          3: "that is against a token of the other rank",
          1: "a mean of means is not the mean"}),
    "a mean of means gives each rank the same weight, and not each token",
)

four_buckets = question(
    "ask-four-buckets",
    "A backward pass of 80 ms, its all-reduce of 40 ms in four equal buckets, starts are free. "
    "After how long is everything done?",
    Asked("time", _FOUR, "s", {
          120*ms: "that hides nothing",
          80*ms: "the last bucket is ready only when the backward pass ends"}),
    "only the last bucket sticks out",
)
