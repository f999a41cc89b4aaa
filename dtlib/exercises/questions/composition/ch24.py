"""Quick questions of chapter 24, Three axes at once."""

from dtlib.collectives import ring_all_reduce_sent_bytes
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.parallelism.pipeline.cost import pipeline_bubble_fraction
from dtlib.parallelism.tensor.cost import tensor_parallel_layer_bytes

# fmt: off
_OWN = 175e9 / (8 * 16)
_CUBE = Mesh.of(dp=2, pp=2, tp=2)
_GROWS = (tensor_parallel_layer_bytes(1, 4096, 8192, tp=8, element_bytes=2)
          / tensor_parallel_layer_bytes(1, 4096, 8192, tp=2, element_bytes=2))
_FEWER = Layout(dp=64, tp=8, pp=8).micro_batches(1536)
_MT_NLG = Layout(tp=8, pp=35, dp=8)
_FILLED = 1 - pipeline_bubble_fraction(35, _MT_NLG.micro_batches(1920), 1)

degrees_divide = question(
    "pause-degrees-divide",
    "175 billion parameters on 1,024 GPUs: tp = 8, pp = 16, dp = 8, and ZeRO's stage 1. Weights "
    "and gradients are 4 bytes for each parameter, the optimizer's state is 12. What does a GPU "
    "hold of all this?",
    Asked("state", 4 * _OWN + 12 * _OWN / 8, "bytes", {
          16 * _OWN: "that is without stage 1: replicas share the optimizer's state",
          16 * _OWN / 8: "stage 1 divides neither weights nor gradients",
          12 * _OWN / 8: "weights and gradients are there, too"}),
    "tp and pp divide everything, dp the optimizer's state alone",
)

first_stage_holds = question(
    "pause-first-stage-holds",
    "A pipeline of 8 stages instead of 4, with the same model and 32 micro-batches under 1F1B. How "
    "many times as many bytes of activations does the first rank hold at its peak?",
    Asked("times", 1, slips={
          1 / 2: "it has half as many layers; how many micro-batches are under way?",
          2: "twice as many micro-batches; of how many layers?"}),
    "half of the layers, twice as many micro-batches under way",
)

groups_of_a_cube = question(
    "pause-groups-of-a-rank",
    "Eight ranks on a mesh of dp = 2, pp = 2, tp = 2, the last axis fastest. With which rank does "
    "rank 5 share each of its layers?",
    Asked("rank", _CUBE.rank(**_CUBE.coordinates(5) | {"tp": 0}), slips={
          7: "that is the next stage: it differs from rank 5 along pp",
          1: "that is the other replica: it differs from rank 5 along dp",
          6: "a neighbour on the other side has another place along pp"}),
    "its neighbour along the last axis: 4 and 5 have the two halves of each matrix",
)

forgotten_mean = question(
    "pause-forgotten-mean",
    "Somebody leaves out the last line, the division by two, and trains with plain SGD. What is "
    "different?",
    Chosen("difference", "every step is twice as long", {
        "replicas drift apart": "the sum is the same number on both",
        "the loss of the first step": "it is computed before any gradient",
        "nothing": "Adam would hardly notice; does plain SGD divide by the gradient's size?"}),
    "a factor in all gradients alike is a factor in the learning rate",
)

norm_twice = question(
    "pause-norm-twice",
    "To clip, each rank squares the gradients that it holds, and the squares are added over all "
    "eight ranks. Norms of layers are whole on each rank of tp, and replicas hold the same sums. "
    "The norm that comes out is ...?",
    Chosen("norm", "too large", {
        "right": "how many ranks hold the gradient of a norm's weight, and add its square?",
        "too small": "is any number left out?",
        "another on each rank": "all of them get the one sum"}),
    "what has copies counts once for each of them, so gradients are clipped that need not be",
)

uniform_warm_up = question(
    "pause-uniform-warm-up",
    "Under 1F1B, how many forward passes of the warm-up do all eight stages of a pipeline do "
    "together?",
    Asked("passes", sum(8 - 1 - stage for stage in range(8)), slips={
          56: "that is if each stage did as many as the first",
          36: "the last stage begins with no warm-up at all",
          7: "that is the first stage"}),
    "each stage one fewer than the stage before, down to none",
)

overflow_on_one = question(
    "pause-overflow-on-one",
    "One rank of tp finds an infinity in its columns and skips the step; its neighbour, which has "
    "the other columns, does not. What is wrong from then on?",
    Chosen("wrong", "halves of one matrix are of different steps", {
        "copies of a weight differ": "which of the two has a copy of the other's columns?",
        "nothing, a step was lost": "for one of them",
        "the next loss is infinite": "the infinity was thrown away with the step"}),
    "and the two count their steps differently from there on",
)

whose_critical_path = question(
    "pause-whose-critical-path",
    "Along which axis does a rank wait for messages inside every layer, on the way forward and on "
    "the way back?",
    Chosen("axis", "tp", {
        "pp": "a stage hands on what its last layer has made: what of the layers between?",
        "dp": "gradients are exchanged when they are final, and while others are computed"}),
    "each layer needs the sum of all ranks before the next one can begin",
)

bytes_of_tp_degree = question(
    "pause-bytes-of-tp-degree",
    "tp goes from 2 to 8, and everything else stays. By which factor do the bytes change that one "
    "rank sends for the all-reduces of one layer?",
    Asked("factor", _GROWS, slips={
          1 / 4: "the sum is as wide as before, on however many ranks",
          1: "nearly; a ring sends twice (t - 1) / t of the sum",
          4: "each rank has as many tokens as before"}),
    "a rank's arithmetic shrinks to a quarter, and what it sends grows",
)

what_hides = question(
    "pause-what-hides",
    "The batch stays, and is cut into twice as many micro-batches, half as large each. Latency "
    "aside, which of these takes less time in a step?",
    Chosen("term", "the bubble", {
        "all-reduces of tp": "twice as many, half as large: how many bytes in all?",
        "messages of pp": "twice as many, half as large: how many bytes in all?",
        "gradients of dp": "they are exchanged once a step, and now hide under a shorter last "
                           "micro-batch"}),
    "what counts tokens does not care how they are cut; what counts turns does",
)

deeper_is_not_longer = question(
    "pause-deeper-is-not-longer",
    "1,024 GPUs, 2,048 sequences in a step, one in each micro-batch, 8 ranks to a layer. The "
    "bubble is which share of the busy time at most, however deep the pipeline is?",
    Asked("share", 1 / 8 * 1024 / 2048, slips={
          1 / 2: "that is P / B; the width divides it",
          1 / 8: "the width divides P / B, and what is P / B?",
          7 / 128: "that is with 8 stages; let p grow"}),
    "each stage more adds a turn of filling and the micro-batches that hide it",
)

nine_times = question(
    "pause-nine-times",
    "The sums of tp leave their node: from NVLink with 450 GB/s in each direction to one port of "
    "50 GB/s for each GPU. How many times as long do they take, latency aside?",
    Asked("times", 450 / 50, slips={
          18: "900 GB/s counts both directions of a link"}),
    "and they stand inside every layer, where nothing hides them",
)

four_times_dp = question(
    "pause-four-times-dp",
    "The batch is 1,536 sequences, one in each micro-batch, on pipelines of 8 stages. dp goes from "
    "16 to 64, so that a pipeline has 24 micro-batches in place of 96. Which share of the step is "
    "the bubble now?",
    Asked("share", pipeline_bubble_fraction(8, _FEWER, 1), slips={
          pipeline_bubble_fraction(8, 96, 1): "that is with 96 micro-batches",
          7 / 24: "that is on top of the work, not of the whole step",
          8 / 31: "8 stages have 7 borders between them"}),
    "three times what it was, and nothing else about the pipeline has changed",
)

mt_nlg = question(
    "pause-mt-nlg",
    "MT-NLG: a batch of 1,920 sequences, 8 replicas, one sequence in each micro-batch, 35 stages. "
    "Which share of the time does a stage work, if nothing but the pipeline makes it wait?",
    Asked("share", _FILLED, slips={
          70 / 104: "as many micro-batches as twice the stages? count them from the batch",
          34 / 274: "that is the bubble",
          1920 / 1954: "the replicas share the batch"}),
    "240 micro-batches fill even 35 stages",
)

zero_three_and_stages = question(
    "pause-zero-three-and-stages",
    "A stage has 128 micro-batches in a step, and keeps a part of its weights (ZeRO's stage 3). It "
    "gathers a layer before each forward and each backward pass, and lets it go after it. How many "
    "times is a layer gathered in a step?",
    Asked("times", 2 * 128, slips={
          2: "that is without a pipeline, where a step is one pass",
          128: "and on the way back?"}),
    "a pipeline needs its weights in every micro-batch",
)

scattered_borders = question(
    "pause-scattered-borders",
    "A stage of eight ranks, each with a port of its own, hands its stream on to the next stage in "
    "another node. Before, each of the eight has sent all of it. How many times as few bytes cross "
    "a port now?",
    Asked("times", 8, slips={
          1: "each port carries an eighth",
          64: "the ports were eight before, and are eight now"}),
    "what the eight know together need not be told eight times",
)

which_axis_first = question(
    "ask-which-axis-first",
    "A GPU would need twice the memory that it has. All GPUs are in use already, and there is no "
    "ZeRO. Which change halves weights, gradients and optimizer state on each GPU?",
    Chosen("change", "twice the pp, half the dp", {
        "ZeRO's stage 1": "it divides the optimizer's state alone",
        "twice the micro-batches": "activations, perhaps; does a weight know of micro-batches?",
        "half the tp, twice the dp": "then a GPU has twice as much of each layer"}),
    "tp and pp divide what a GPU has of the model, and dp only repeats it",
)

divided_twice = question(
    "ask-divided-twice",
    "Four stages, eight micro-batches. The last stage divides each loss by 8, as it should; each "
    "stage before it divides the gradient that arrives by 8 once more. By which factor are the "
    "first stage's gradients too small?",
    Asked("factor", 8**3, slips={
          8**4: "the division of the loss is due; how many borders follow?",
          8: "each border divides anew",
          24: "divisions one after the other multiply"}),
    "the loss is divided once, where it is made; gradients inherit it",
)

busiest_axis = question(
    "ask-busiest-axis",
    "tp = 8, and a rank has ten layers. For one micro-batch, how many times the bytes of a "
    "message between two stages does a rank send in the all-reduces of its forward pass?",
    Asked("times", 10 * 2 * ring_all_reduce_sent_bytes(n=1, P=8), slips={
          17.5: "a ring sends a sum twice, but for an eighth",
          20: "a ring sends twice (t - 1) / t of each sum",
          3.5: "that is one layer", 70: "that is with the backward pass"}),
    "both are as large as the stream; the one goes out once for a stage, the other for every layer",
)
