"""Quick questions of chapter 31a, Architectures that move less."""

from math import comb

from dtlib.efficiency.architecture.cost import (
    absorbing_queries,
    grouped_attention_intensity,
    grouped_cache_bytes,
    halo_bytes,
    latent_attention_intensity,
    latent_cache_bytes,
    turning_batch,
)
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB

# fmt: off
what_must_be_kept = question(
    "pause-what-must-be-kept",
    "A model is trained so that token i asks token i - 1 and nobody else. How many tokens must one "
    "of its layers keep?",
    Asked("tokens", 1, slips={0: "who answers the next token?", 2: "a query is used once"}),
    "what nobody will ask for need not be kept",
)

of_one_token = question(
    "pause-of-one-token",
    "80 layers, 64 heads, 8 key heads of 128 numbers, two bytes each. How many bytes does one "
    "token leave?",
    Asked("bytes", grouped_cache_bytes(80, 8, 128, 1, 2), "B", {
          2 * 80 * 64 * 128 * 2: "64 heads ask, and 8 are kept",
          80 * 8 * 128 * 2: "a key and a value", 2 * 8 * 128 * 2: "in all layers"}),
    "Llama's 70 billion parameters leave a third of a megabyte for each token",
)

twice_as_wide = question(
    "pause-twice-as-wide",
    "A latent of 448 numbers with 64 rotary ones, heads of 128. The latent alone is made twice as "
    "wide. By what factor does the cache grow?",
    Asked("factor", (896 + 64) / (448 + 64), slips={
          2: "the rotary key stays as it was", 1: "what is kept of a token?"}, tolerance=0.005),
    "the shared rotary key does not grow with it",
)

which_is_made = question(
    "pause-which-is-made",
    "A cache of 1,000 tokens, 16 heads, absorbed, and one new token. How many keys of single heads "
    "are made?",
    Asked("keys", 0, slips={
          16000: "that is the explicit order", 16: "what is expanded, a key or the query?",
          1000: "the latents are there already"}),
    "none: 16 queries are expanded instead, and meet the latents themselves",
)

as_wide_as_a_latent = question(
    "pause-as-wide-as-a-latent",
    "In the absorbed order, how many numbers are multiplied for one score, with a latent of 512 "
    "and 64 rotary numbers?",
    Asked("numbers", 576, slips={192: "that is the explicit order", 512: "and the rotated ones",
          64: "and the latent"}),
    "three times as many as in the explicit order: 128 and 64",
)

a_prompt_of_many = question(
    "pause-a-prompt-of-many",
    "A server has a text of 100,000 tokens in its cache, in DeepSeek-V3's widths, and reads 2,000 "
    "new ones of a prompt at once. Which order has less arithmetic?",
    Chosen("order", "explicit", {
           "absorbed": "how many new tokens may ask before it turns?"}),
    f"the border is at {absorbing_queries(100_000, 512, 128, 128):.0f} new tokens",
)

where_it_turns = question(
    "pause-where-it-turns",
    "Weights of 140 GB, spread over some GPUs. Each sequence keeps 3.5 GB, spread as well. With "
    "how many sequences does a step read as much of caches as of weights?",
    Asked("batch", turning_batch(140*GB, 3.5*GB), slips={
          3.5 / 140: "weights over one cache", 490: "a quotient, not a product"}),
    "beyond 40 sequences the caches set the pace",
)

a_full_memory = question(
    "pause-a-full-memory",
    "A GPU of 96 GB reads 3.2 TB/s and is full: weights and caches of 40 sequences. How many "
    "tokens a second does it make at most?",
    Asked("rate", 40 * 3.2e12 / 96e9, slips={
          3.2e12 / 96e9: "that is how many steps", 96e9 / 3.2e12: "that is the time of a step"},
          tolerance=0.005),
    "a step reads all of it once, 33 times a second, and makes 40 tokens",
)

per_byte_read = question(
    "pause-per-byte-read",
    "64 heads, 8 key heads, numbers of one byte instead of two. How many FLOP are done for each "
    "byte of the cache?",
    Asked("intensity", grouped_attention_intensity(64, 8, 1), "FLOP/B", {
          8: "each byte is a number now", 4: "smaller numbers, fewer bytes",
          64: "eight heads share", 128: "eight heads share"}),
    "as much work for half the bytes",
)

who_adds_up = question(
    "pause-who-adds-up",
    "Eight tensor-parallel ranks, 2 key heads. How many ranks must add up the gradient of one key "
    "head's matrix?",
    Asked("ranks", 4, slips={8: "do all of them have this head?", 2: "eight ranks, two heads",
          1: "is there a whole head for each rank?"}),
    "four ranks hold the same key head, and each has a part of its gradient",
)

latent_on_ranks = question(
    "pause-latent-on-ranks",
    "4 key heads of 128 numbers, or a latent of 512 and 64. On how many tensor-parallel ranks does "
    "a rank keep fewer bytes with the key heads for the first time: 1, 2, 4 or 8?",
    Asked("ranks", 2, slips={1: "4 key heads are 1,024 numbers", 4: "try two",
          8: "a rank keeps one key head at least"}),
    "two key heads are 512 numbers, and the latent is 576 on any rank",
)

whose_keys_travel = question(
    "pause-whose-keys-travel",
    "All 32 heads have keys; a variant has 4 key heads. By what factor do the bytes of a ring over "
    "the tokens shrink?",
    Asked("factor", 8, slips={1: "what goes round?", 4: "32 over 4",
          1 / 8: "by what factor do they shrink?"}),
    "keys and values are all that travels",
)

latents_or_keys = question(
    "pause-latents-or-keys",
    "128 heads, latents of 512 and 64, keys of 192 numbers and values of 128. By what factor are "
    "the bytes less if ranks gather latents instead of keys and values?",
    Asked("factor", 128 * 320 / 576, slips={128 * 256 / 576: "and the rotary part of a key",
          320 / 576: "of every head", 128 * 192 / 576: "and the values"}, tolerance=0.005),
    "each rank then makes all keys itself, which is the price",
)

twice_the_ranks = question(
    "pause-twice-the-ranks",
    "Twice as many ranks share a text that is twice as long, with the same window. How many times "
    "as many bytes does a rank send for the halo?",
    Asked("factor", 1, slips={2: "whose tokens does it send, and to how many?",
          4: "whose tokens does it send, and to how many?", 0.5: "how long is the window?"}),
    "the halo is as wide as the window, whatever lies behind it",
)

no_more_than_a_neighbour = question(
    "pause-no-more-than-a-neighbour",
    "32 ranks share 131,072 tokens, 8 key heads of 128 numbers in two bytes, a window of 4,096. "
    "How many bytes does a rank send in one layer, forward?",
    Asked("bytes", halo_bytes(1, 8, 128, 4096, 2), "B", {
          31 * 2 * 8 * 128 * 4096 * 2: "to how many ranks?",
          8 * 128 * 4095 * 2: "keys and values"}, 0.005),
    "its last 4,095 tokens, to one neighbour; a share is 4,096",
)

what_a_window_shrinks = question(
    "pause-what-a-window-shrinks",
    "A window of a quarter of the text. What becomes a quarter: the cache, what a stage sends to "
    "the next, or the gradients of a replica?",
    Chosen("what", "cache", {
           "stage": "the stream is as long as the text", "gradients": "are there fewer weights?"}),
    "only what attention keeps of the past",
)

a_state_and_a_cache = question(
    "pause-a-state-and-a-cache",
    "16 heads of 64 numbers, all with keys. From how many tokens on does the cache weigh more than "
    "a state in numbers of as many bytes?",
    Asked("tokens", 16 * 64 / (2 * 16), slips={
          64: "a key and a value", 512: "each head has a state, and each head has a cache",
          16: "half of what?"}),
    "a matrix of 64 rows weighs as much as 32 keys and 32 values",
)

a_scan_of_many = question(
    "pause-a-scan-of-many",
    "64 ranks share a text and scan its states. How many messages does a rank send, the last "
    "hand-over included?",
    Asked("messages", 7, slips={6: "and the hand-over", 63: "ranges double in each round",
          64: "ranges double in each round"}),
    "after six rounds each knows 64 stretches, and one message hands that on",
)

room_for_keys = question(
    "pause-room-for-keys",
    "Keys of 256 random numbers. After how many stored pairs is the error of an answer half as "
    "large as the value?",
    Asked("pairs", 0.25 * 256 + 1, slips={
          128: "the error is a root", 257: "that is an error as large as the value"},
          tolerance=0.03),
    "the error is the root of pairs over numbers",
)

which_nodes = question(
    "pause-which-nodes",
    "Two experts of a token on at most one of two nodes, chosen as above. The scores on the first "
    "node are 9, 1 and 1, on the second 6, 6 and 0. What do the chosen two add up to?",
    Asked("scores", 12, slips={10: "the two best of a node count, not the best one",
          15: "those two lie on two nodes", 11: "of each node the two best count"}),
    "the second node promises 12, the first 10, although it has the best expert",
)

the_worst_token = question(
    "pause-the-worst-token",
    "256 experts on 16 nodes, 8 chosen at random. Which share of the nodes does a token visit on "
    "average?",
    Asked("share", 1 - comb(240, 8) / comb(256, 8), "%", {
          0.5: "two of its experts may be on one node", 8: "as a share of 16"}, 0.01),
    "two fifths, 6.5 nodes: on more nodes a free router spreads more",
)

in_layers = question(
    "pause-in-layers",
    "A stage has five layers, the last one five and the head, which weighs two, and now a further "
    "token: a layer and the head again. How many layers should be taken from the last stage to "
    "make it no slower than the others?",
    Asked("layers", 5, slips={2: "and the module", 3: "and the model's own head",
          4: "a layer, and the head twice"}),
    "all five: 2 for the head and 3 for the module are a stage by themselves",
)

guesses_that_hold = question(
    "pause-guesses-that-hold",
    "A module guesses one further token and is right in 80 % of the cases. A step with it takes "
    "1.2 times as long. How many times as many tokens a second?",
    Asked("factor", 1.8 / 1.2, slips={1.8: "and the longer step", 0.8 / 1.2: "and the model's own?",
          2 / 1.2: "a fifth of the guesses is wrong"}, tolerance=0.005),
    "1.8 tokens in 1.2 of the time",
)

two_copies = question(
    "pause-two-copies",
    "8 ranks in a pipeline, each with one stage of 10 GB. With DualPipe: how many GB of weights "
    "does a rank hold, if experts are not spread further?",
    Asked("GB", 20*GB, "B", {10*GB: "a rank has a stage of each way",
          80*GB: "of each way one stage", 90*GB: "that is about micro-batches"}),
    "a stage of each direction",
)

experts_of_a_batch = question(
    "pause-experts-of-a-batch",
    "8 of 256 experts for each token, at random. Which share of them does a step of decoding read "
    "for 64 sequences?",
    Asked("share", 1 - (1 - 8 / 256) ** 64, "%", {
          64 * 8 / 256: "some tokens choose the same", 8 / 256: "that is for one sequence"}, 0.01),
    "87 %: with a batch of sequences nearly all weights are read",
)

q_latent = question(
    "ask-more-heads",
    "A model with a latent of 512 and 64 gets 256 heads instead of 128. How many times as many "
    "bytes does it keep of a token?",
    Asked("factor", latent_cache_bytes(1, 512, 64, 1, 2) / latent_cache_bytes(1, 512, 64, 1, 2),
          slips={2: "which head has a part of the latent of its own?"}),
    "as many: no head appears in what is kept, only in the work on it",
)

q_ridge = question(
    "ask-idle-time-left",
    "128 heads share a latent of 512 and 64, in two bytes. How many heads would bring its work to "
    "295 FLOP for each byte?",
    Asked("heads", 295 / latent_attention_intensity(1, 512, 64, 2), slips={
          295: "each head does nearly two FLOP for a byte",
          147.5: "a score is 576 long, its use 512"}, tolerance=0.01),
    "156: beyond them absorbed attention is bound by arithmetic on an H100",
)

q_order = question(
    "ask-which-stretch-first",
    "Three stretches of text add 1, 2 and 4 to a state of one number, and each halves what was "
    "there before. What is the state after them, from 0?",
    Asked("state", ((0 * 0.5 + 1) * 0.5 + 2) * 0.5 + 4, slips={
          7: "each halves what was there", 3: "the first stretch comes first"}),
    "the latest weighs most; in another order it is another number",
)
