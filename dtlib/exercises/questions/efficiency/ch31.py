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

two_shares = question(
    "pause-two-shares",
    "A run communicates for 60 ms and hides 40 % of that, which is 80 % of what could be hidden. "
    "How long is the arithmetic that may run beside its communication?",
    Asked("computing", 0.4 * 60*ms / 0.8, "s", {
          0.4 * 60*ms: "that is what is hidden, and more could be",
          0.8 * 60*ms: "80 % of what? Not of all communication",
          60*ms / 0.8: "how much of the communication is hidden?"}),
    "24 ms are hidden, and they are 80 % of the shorter of the two",
)

made_last = question(
    "pause-made-last",
    "The forward pass makes A, from its result first B and then C, and adds the two. In which "
    "order does the backward pass take the three?",
    Chosen("order", "C B A", {
           "B C A": "both are ready after the sum: which was made last?",
           "A B C": "is what A needs there so early?",
           "C A B": "A has two contributions"}),
    "of two that are ready the one made last, and A when both have handed theirs over",
)

three_uses = question(
    "pause-three-uses",
    "Layers 3, 7 and 9 of twelve use the same matrix. After the backward pass of which layer is "
    "its gradient handed over?",
    Chosen("layer", 3, {
           7: "is each contribution there by then?", 9: "that is the first contribution",
           12: "this layer does not use it"}),
    "the first use in the forward pass is the last contribution, so sharing makes a gradient late",
)

the_first_step = question(
    "pause-the-first-step",
    "Forward 20 ms, backward 40 ms, all sums 30 ms, starts cost nothing. DDP's size of a bucket "
    "makes ten equal ones. How long is its first step?",
    Asked("step", 20*ms + 40*ms + 30*ms, "s", {
          63*ms: "that is a later step: does it know an order yet?",
          60*ms: "when can its only bucket start?", 70*ms: "when can its only bucket start?"}),
    "everything is in one bucket, which is ready when the backward pass is over",
)

_TIME = contended_bucketed_time(80*ms, 40*ms, 10, 0, 0.25)

four_times_the_start = question(
    "pause-four-times-the-start",
    "On a slow network each start takes four times as long as before. By what factor does the "
    "best number of buckets change?",
    Asked("factor", (1 / 4) ** 0.5, slips={
          1 / 4: "that is so on a fast network", 2: "do dearer starts ask for more of them?",
          4: "do dearer starts ask for more of them?"}),
    "the start stands under a root: half as many buckets, and all starts together cost twice",
)

one_bucket_or_two = question(
    "pause-one-bucket-or-two",
    "Two gradients are ready after 10 and 12 ms. Each travels for 5 ms, and each bucket takes "
    "4 ms to start. After how long are both reduced at the earliest?",
    Asked("over", min(max(12*ms, 10*ms + 9*ms) + 9*ms, 12*ms + 4*ms + 10*ms), "s", {
          28*ms: "what if both travel together?", 21*ms: "a bucket is as long as all that is in it",
          24*ms: "a second bucket has a start of its own"}),
    "in one bucket: waiting for the second gradient costs less than a second start",
)

the_third_bucket = question(
    "pause-the-third-bucket",
    "A backward pass of 60 ms, sums of 90 ms, starts cost nothing. The first bucket has 4 MB. How "
    "large should the third be?",
    Asked("third", 4*MB * (90 / 60) ** 2, "B", {
          4*MB * 1.5: "that is the second", 4*MB * 1.5**3: "that is the fourth",
          4*MB / 1.5**2: "on a slow network, do buckets shrink?"}),
    "each is larger by half: as much as becomes ready while the one before it travels",
)

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

how_deep = question(
    "pause-how-deep",
    "Take the third row: 2 ms to compute, 1 ms to gather, 6 ms of latency. How many layers ahead "
    "must one ask, at least, for only the first gather to be exposed?",
    Asked("ahead", -(-(6 + 1) // 2), slips={
          3: "the latency is covered, and the gather itself?", 7: "a layer lasts longer than 1 ms",
          8: "it does, and fewer do as well", 2: "that covers part of the latency"}),
    "latency and gather last 7 ms, which is three layers and a half",
)

the_eleventh_launch = question(
    "pause-the-eleventh-launch",
    "The host needs 5 µs for each launch. It launches ten kernels of 100 µs on one stream and then "
    "a gather on another, with a connection of its own and free multiprocessors. After how long "
    "can the gather start?",
    Asked("starts", 11 * 5*us, "s", {
          1000*us: "does another stream wait for these kernels?",
          5*us: "the host launches one after the other",
          50*us: "it must be launched, too",
          1005*us: "does another stream wait for these kernels?"}),
    "after eleven launches, in the middle of the first kernel",
)

the_rest_of_a_product = question(
    "pause-the-rest-of-a-product",
    "A sum holds a quarter of the multiprocessors for 4 ms. With it begins a product that would "
    "take 6 ms with all of them. How long does it take?",
    Asked("product", 4*ms + (6*ms - 0.75 * 4*ms), "s", {
          10*ms: "it need not wait for the sum", 8*ms: "it is slower only while the sum runs",
          6*ms: "who holds the rest meanwhile?"}),
    "beside the sum it does three of its 6 ms, and after it the other three",
)

sixteen_kernels = question(
    "pause-sixteen-kernels",
    "Let each of the 24 layers be sixteen kernels instead of eight, half as long each. How much of "
    "the gathers is exposed with implicit prefetch and one connection?",
    Asked("exposed", 24 * 3*ms, "s", {
          36*ms: "when has the last kernel of a layer started, and what does it hold?",
          144*ms: "each layer is gathered once, in 3 ms",
          3*ms: "that is with queues of their own"}),
    "all of it, as before: however short the last kernel, it holds the processors until its end",
)

beside_a_message = question(
    "pause-beside-a-message",
    "On eight ranks a message takes longer than the product of a piece. Which share of the "
    "arithmetic runs beside a message?",
    Asked("share", 7 / 8, slips={
          1: "what is on its way when the last piece is there?",
          6 / 8: "the rank's own piece is multiplied beside the first message",
          1 / 8: "that is what runs beside nothing"}),
    "all pieces but the last: beside each of seven messages one",
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

nobody_meets = question(
    "pause-nobody-meets",
    "A message travels for 20 µs. The sender has it after 10 µs, the receiver calls after 50, and "
    "its place has been free, and said so, from the start. How much earlier are the bytes there "
    "with a put than with a send and a receive?",
    Asked("earlier", 50*us - 10*us, "s", {
          30*us: "that is when the put has arrived", 20*us: "a put travels as long as a message",
          70*us: "that is when the message has arrived",
          60*us: "a put travels as long as a message"}),
    "a put waits for the place alone, and a message for the later of the two",
)

bound_by_memory = question(
    "pause-bound-by-memory",
    "A collective of 6 ms holds 20 of 132 multiprocessors and a third of the memory's bandwidth. "
    "By how much does it delay a longer kernel beside it that is bound by memory?",
    Asked("delay", 6*ms / 3, "s", {
          6*ms * 20 / 132: "by which of the two is the kernel bound?",
          4*ms: "that is what it gets done", 6*ms: "it keeps the rest of the bandwidth"}),
    "a third of 6 ms; by the multiprocessors alone one would expect less than half of that",
)

one_and_sharded = question(
    "pause-one-and-sharded",
    "Weights are sharded, and the variable must stay at 1 for the sake of tensor parallelism. What "
    "gives the gathers of a forward pass their overlap back?",
    Chosen("remedy", "explicit prefetch", {
           "more streams": "how many queues do they share?",
           "smaller layers": "when does the last kernel of a layer let go?",
           "implicit prefetch": "where does the gather stand in the queue?"}),
    "a gather that is launched before the layer's kernels stands before them in the queue, too",
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
