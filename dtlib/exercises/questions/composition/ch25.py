"""Quick questions of chapter 25, Four axes and five."""

from dtlib.composition.mixture import MIXTURE_USES
from dtlib.composition.uses import USES, Use
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations.roofline.one_ratio import context_parallel_tokens
from dtlib.layout import Layout
from dtlib.parallelism.data.cost import micro_batch_count
from dtlib.parallelism.sequence.cost import ring_attention_bytes

# fmt: off
_LEFT_OUT = sum(len(use.summed) for use in MIXTURE_USES.values())
_VALUE = Use("bsh,hmd->bsmd", {"dp": "b", "cp": "s", "tp": "m"})
_FAR = Layout(dp=16, cp=4, tp=8, pp=2, ep=32)
_EDGE = context_parallel_tokens(heads=128, kv_heads=8, element_bytes=2, peak=989e12, beta=50e9)

letters_of_a_norm = question(
    "pause-letters-of-a-norm",
    "A norm's weight has one number for each channel of the stream. Sequences are cut along dp, "
    "tokens along cp and also along tp. Over how many of the three axes is its gradient added?",
    Asked("axes", len(USES["norm"].summed), slips={
          2: "which tokens does a rank of tp see, between the matrices?",
          1: "which of the three letters has the weight?",
          0: "each rank has other tokens: who knows the sum over all of them?"}),
    "it has the channel alone, and all three axes cut something else",
)

two_uses = question(
    "pause-two-uses",
    "A table serves as embedding on the first stage and as head on the last. Each of the two ranks "
    "adds its gradient over dp and cp, and steps. What happens?",
    Chosen("result", "the two tables drift apart", {
        "it is right": "each stage has the gradient of one use: what is the table's?",
        "both are twice too large": "has either of them been added to the other?",
        "an error": "both stages have tensors of one shape, and nobody waits"}),
    "the loss depends on the table through both, so its gradient is the sum of two terms",
)

how_many_leave_out = question(
    "pause-how-many-leave-out",
    "Pairs of a weight and an axis over which its gradient is added: how many are there in the "
    "seven rows?",
    Asked("pairs", _LEFT_OUT, slips={
          21: "seven weights and three axes: but not all of them are added over all",
          7: "that is one set for each weight: how many axes have they together?"}),
    "each of them is a mistake that one can make, and the next cell makes them all",
)

whose_gradients = question(
    "pause-whose-gradients",
    "The norm's weight, which stands before all six others, is not added over tp. How many of the "
    "seven gradients come out wrong in this step?",
    Asked("gradients", 1, slips={
          7: "a weight's sum is formed from finished terms: which other gradient reads it?",
          6: "do the other weights' terms contain the sum of this one's?",
          0: "each rank has its own tokens' terms: whose are missing?"}),
    "sums of weights are formed beside the backward pass, and nothing reads them before the step",
)

copies_of_an_expert = question(
    "pause-copies-of-an-expert",
    "Data 16, context 4, tensor 8, two stages, and ep = 32. In how many ranks does one and the "
    "same piece of an expert lie?",
    Asked("ranks", _FAR.dp * _FAR.cp // _FAR.ep, slips={
          64: "so many hold the same piece of a dense weight",
          16: "context ranks hold experts, too",
          32: "so many ranks divide the experts among them"}),
    "of 64 ranks with the same dense weights, 32 divide the experts: two of each",
)

_ONCE = {"micro_batch": 2, "seq": 16, "heads": 4, "kv_heads": 2, "cp": 2, "element_bytes": 8}
_NARROW, _WIDE = (ring_attention_bytes(hidden=hidden, **_ONCE) for hidden in (16, 32))
batches_without_dp = question(
    "pause-batches-without-dp",
    "A step has eight sequences, and a rank computes two at a time. How many micro-batches does it "
    "compute where dp is 1 and cp, tp and pp are 2?",
    Asked("micro-batches", Layout(cp=2, tp=2, pp=2, micro_batch=2).micro_batches(8), slips={
          2: "cp cuts each sequence, and not the batch",
          8: "two sequences go through the stages together",
          1: "only dp hands out sequences"}),
    "all eight, two at a time: dp alone hands out sequences",
)

ring_under_a_pipeline = question(
    "pause-ring-under-a-pipeline",
    "In the second layout there is no tp, a stage of one layer, two replicas and so two "
    "micro-batches of two sequences. How many bytes does a rank's ring send in this step?",
    Asked("bytes", 2 * 2 * _WIDE, slips={
          2 * 2 * _NARROW: "nobody divides the heads now",
          2 * 4 * _WIDE: "each replica has half of the sequences",
          2 * _WIDE: "forward and backward"}),
    "half the micro-batches of twice the width: as much as above",
)

four_times_under_adam = question(
    "pause-four-times-under-adam",
    "All gradients of the experts are four times too large, all others right; AdamW, no clipping. "
    "Ten steps. How far is the loss from that of the right run?",
    Chosen("distance", "less than a thousandth", {
        "about a tenth": "what does Adam divide a gradient by?",
        "four times": "a gradient is no loss; and what does Adam divide it by?",
        "it diverges": "how large is a step of Adam when all gradients are four times as large?"}),
    "a constant factor cancels in Adam's quotient, so no curve shows it",
)

targets_of_a_zigzag = question(
    "pause-targets-of-a-zigzag",
    "Sixteen ranks share a sequence of a million tokens by zigzag. Tokens are cut first and then "
    "shifted on each rank. How many targets are wrong or missing?",
    Asked("targets", 2 * 16 - 1, slips={
          16: "how many pieces has a rank?",
          32: "on the last rank, what follows the end of its first piece?",
          15: "two pieces on each rank: what follows the end of each?"}),
    "one at the end of each piece but one, whatever the length: few enough to go unseen",
)

does_llama_hide = question(
    "pause-does-llama-hide",
    "Llama 3.1 405B, eight key heads for 128 query heads, 131,072 tokens on 16 ranks, H100s with a "
    "port of 50 GB/s each, no mask. How many times the length that is needed has a rank?",
    Asked("times", 131072 / 16 / _EDGE, slips={
          131072 / _EDGE: "a rank has a sixteenth of the sequence",
          131072 / 16 / (16 * _EDGE): "query heads share key heads, which makes hops shorter"}),
    "long enough also under a causal mask, which halves the work",
)

four_times_the_replicas = question(
    "pause-four-times-the-replicas",
    "Four times the replicas, the same batch. A rank's step had 32 micro-batches. By which factor "
    "do the bytes change that a rank sends along tp in a step?",
    Asked("factor", micro_batch_count(2**22, 64, 1, 8192) / micro_batch_count(2**22, 16, 1, 8192),
          slips={
              1: "how many micro-batches has a rank now?",
              4: "a rank has fewer tokens now, not more",
              1 / 16: "a replica has a quarter of the micro-batches"}),
    "what goes with the micro-batches falls, and the gradients do not",
)

zero_with_context = question(
    "pause-zero-with-context",
    "Dense weights of 1 GB on each rank; dp = 8, cp = 8, ZeRO stage 1 over all ranks that hold the "
    "same weights. The optimizer's state has six times the weights' bytes. What does a rank hold "
    "of it?",
    Asked("state", 6e9 / 64, "bytes", {
          6e9 / 8: "who else holds the same weights?",
          6e9: "stage 1 divides it",
          1e9 / 64: "six times the weights"}),
    "the ranks along cp are replicas as well, for weights and for ZeRO",
)

query_norms = question(
    "pause-query-norms",
    "A norm of each query has 128 numbers, one for each channel of a head; heads are divided along "
    "tp, and tokens are not. Somebody adds gradients over tp only for what sees divided tokens. "
    "What part of this weight's gradient has a rank of eight?",
    Asked("part", 1 / 8, slips={
          1: "are the other ranks' heads in it?",
          8: "less than due, not more"}),
    "what is divided are heads: the weight has no letter for them",
)

value_heads = question(
    "ask-value-heads",
    "Values: einsum bsh,hmd->bsmd, with as many heads m as ranks along tp, or more. Sequences b "
    "along dp, tokens s along cp, heads m along tp. Over which axes is the gradient added?",
    Chosen("axes", " ".join(_VALUE.summed), {
        "dp": "cp cuts a letter which the weight has not",
        "dp cp tp": "which letter of the weight does tp cut?",
        "tp": "tp cuts a letter of the weight: its pieces are complete"}),
    "the weight lacks b and s, and has m",
)

ranks_with_experts = question(
    "ask-ranks-with-experts",
    "Data 32, context 2, tensor 8, four stages, experts divided by 16. How many GPUs?",
    Asked("GPUs", Layout(dp=32, cp=2, tp=8, pp=4, ep=16).ranks, slips={
          32 * 2 * 8 * 4 * 16: "experts are divided among ranks that are there already",
          32 * 8 * 4: "context ranks are ranks"}),
    "the product of four degrees; the fifth divides data times context",
)

which_is_seen = question(
    "ask-which-is-seen",
    "One axis was left out of one weight's sum. Which of these shows it in the first step?",
    Chosen("sign", "that weight's gradient", {
        "the loss": "the forward pass is the same",
        "the gradients of the layers below": "their terms are made before any sum of weights",
        "a shape": "a summand has the shape of the sum"}),
    "compare every gradient with one process, for nothing else differs",
)
