"""Quick questions of chapter 31, Overlap."""

from dtlib.efficiency.overlap.cost import (
    collective_matmul_time,
    contended_bucketed_time,
    overlapped_bucket_count,
    overlapped_step_floor_time,
)
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB, MB, ms, us

# fmt: off
_FLOOR = overlapped_step_floor_time(30*ms, 60*ms, 90*ms, first_ready=2*ms, last_time=1*ms)

which_floor = question(
    "pause-which-floor",
    "Forward 30 ms, backward 60 ms. All sums together take the network 90 ms, the last one 1 ms, "
    "and the first gradient is there 2 ms after the backward pass begins. What is the least time "
    "of a step?",
    Asked("floor", _FLOOR, "s", {
          91*ms: "can the network be done by then?", 90*ms: "can the network be done by then?",
          120*ms: "when can the network start?", 180*ms: "the two run side by side"}, 0.003),
    "here the network decides: from the first gradient on it is never idle",
)

gradients_at_once = question(
    "pause-gradients-at-once",
    "A compiler makes one graph of a whole model. DDP wraps it, in 20 buckets, and the all-reduce "
    "takes half as long as the backward pass. How much of it is hidden, in percent?",
    Asked("hidden", 0, "%", {
          95: "when does autograd hand over the first gradient?",
          100: "when does autograd hand over the first gradient?"}),
    "the backward pass is one node of autograd: all gradients come when it is over",
)

_TIME = contended_bucketed_time(80*ms, 40*ms, 10, 0, 0.25)

share_of_the_gpu = question(
    "pause-share-of-the-gpu",
    "A backward pass of 80 ms, sums of 40 ms in 10 buckets, no starts. The sums hold a quarter of "
    "the processors. When is all over?",
    Asked("over", _TIME, "s", {
          84*ms: "beside nine of the ten buckets the arithmetic is slower",
          94*ms: "beside the last bucket nothing is computed",
          (80 / 0.75 + 4)*ms: "it is slower only while the network is busy"}, 0.004),
    "nine buckets of 4 ms cost a quarter of their time each, and the tenth all of it",
)

who_started_first = question(
    "pause-who-started-first",
    "One connection. The host launches a gather on stream 1, then the product that waits for it, "
    "then another gather on stream 1. When can the second gather start at the earliest?",
    Chosen("starts", "when the product starts", {
           "when the first gather ends": "what stands before it in the connection?",
           "when the product ends": "it must have started, no more",
           "at once": "it is on the stream of the first gather"}),
    "so a gather that is launched after a layer's ten kernels waits for nine of them",
)

both_products = question(
    "pause-both-products",
    "Four ranks, a ring. Multiplying the whole operand takes 8 ms, a message 1 ms. How long does "
    "the product take in pieces?",
    Asked("product", collective_matmul_time(8*ms, 4*MB, 4, 0, 1*GB), "s", {
          11*ms: "each message runs beside a piece", 7*ms: "and the last piece?",
          9*ms: "the first piece is there already"}),
    "pieces of 2 ms cover messages of 1 ms, so only the arithmetic is left",
)

best_of_a_fast_network = question(
    "ask-fast-network-buckets",
    "A backward pass of 60 ms, an all-reduce of 20 ms, 200 µs for a start, no contention. With how "
    "many equal buckets is a step shortest?",
    Asked("buckets", overlapped_bucket_count(60*ms, 20*ms, 200*us), slips={
          (60*ms / (200*us))**0.5: "that is for a network that is slower than the backward pass",
          300: "the sums take time, too"}),
    "the starts fill what the network has to spare",
)

what_a_deeper_prefetch_buys = question(
    "ask-deeper-prefetch",
    "Gathering a layer takes 5 ms, computing it 3 ms, without latency. By how much does a step of "
    "10 layers get shorter if two layers are gathered ahead instead of one?",
    Asked("shorter", 0, "s", {5*ms: "which of the two lanes is never idle?",
          3*ms: "which of the two lanes is never idle?", 20*ms: "the network is the slower lane"}),
    "nothing: the network is busy from the first to the last gather either way",
)

one_more_stream = question(
    "ask-one-more-stream",
    "A collective needs a tenth of the processors and is ready while a product runs that holds all "
    "of them. The collective has a stream and a connection of its own. When does it start?",
    Chosen("starts", "when the product ends", {
           "at once": "a stream is an order, not a share of the processors",
           "when its stream is idle": "its stream is idle, and what is not free?"}),
    "unless the hardware gives it priority: streams alone are no promise",
)
