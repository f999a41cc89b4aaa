"""Quick questions of chapter 23, Meshes and placements."""

from dtlib.collectives import ring_all_reduce_sent_bytes
from dtlib.composition import Change, Placed, cheapest_way
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.mesh import Mesh, Partial, Replicate, Shard

# fmt: off
_NODES = Mesh.of(pp=4, dp=8, tp=8)
_OF_13 = Mesh.of(pp=2, dp=4, tp=2)
_CUT_TWICE = Placed.on(Mesh.of(pp=2, dp=2, tp=4), (32, 100), dp=Shard(0), tp=Shard(0))
_ROWS = _CUT_TWICE.part(0)[0].stop
_SUMMED = Placed.on(Mesh.of(dp=2, tp=4), (64, 64), dp=Partial(), tp=Shard(0))
_WAY = cheapest_way(_SUMMED, _SUMMED.but(dp=Shard(0), tp=Replicate()))
_PIECES = Placed.on(Mesh.of(tp=16), (16, 16), tp=Shard(0))
_TURNED = Change("tp", _PIECES, _PIECES.but(tp=Shard(1))).sent_bytes(1) / 256
_GATHERED = Change("tp", _PIECES, _PIECES.but(tp=Replicate())).sent_bytes(1) / 256
_STREAM = ring_all_reduce_sent_bytes(n=65536 * 8192 * 2, P=8)

pairs_with_two_names = question(
    "pause-pairs-with-two-names",
    "Six ranks in a line, and a group for each of the five pairs of neighbours, made from left to "
    "right by its members only. For how many of the pairs do the two members count differently?",
    Asked("pairs", sum(left != right for left, right in [(1, 1), *[(2, 1)] * 4]), slips={
          5: "how many groups has rank 0 made, and how many rank 1, when they make theirs?",
          3: "which group of its own is the last pair to rank 5?",
          1: "every rank but the first and the last is in two pairs"}),
    "all but the first: for the left member it is the second group, for the right one the first",
)

who_is_with_13 = question(
    "pause-who-is-with-13",
    "A mesh of 16 ranks: pp = 2, then dp = 4, then tp = 2. Rank 13 is at pp 1, dp 2, tp 1. Which "
    "is the lowest rank of its group along dp?",
    Asked("rank", _OF_13.rank(**_OF_13.coordinates(13) | {"dp": 0}), slips={
          12: "that is its neighbour along tp; which coordinate runs along dp?",
          8: "its place along tp stays what it is",
          5: "that is its partner along pp"}),
    "its coordinates along pp and tp stay, and dp runs from 0: 8 + 1",
)

shape_of_a_part = question(
    "pause-shape-of-a-part",
    "A tensor of 32 rows on a mesh of pp = 2, dp = 2, tp = 4. Along dp and along tp it is cut by "
    "rows, along pp replicated. How many rows has a rank?",
    Asked("rows", _ROWS, slips={
          2: "an axis along which it is replicated cuts nothing",
          8: "both dp and tp cut the rows",
          16: "both dp and tp cut the rows"}),
    "two axes cut, one after the other: a half, then a quarter of that",
)

in_which_order = question(
    "pause-in-which-order",
    "How many changes does the cheapest way have?",
    Asked("changes", len(_WAY), slips={
          2: "count bytes, not changes: could the sum be formed while a rank has less?",
          1: "one change concerns one axis"}),
    "turn, reduce and scatter, gather: see the next cell",
)

type_of_a_product = question(
    "pause-type-of-a-product",
    "X is sharded by columns, W by rows, and Z = XW. Which of these may each rank apply to its Z "
    "before anything is sent?",
    Chosen("map", "times a matrix", {
        "gelu": "Z is a sum over the ranks, and gelu is not linear",
        "softmax": "a softmax needs the sum, and then whole rows",
        "a bias": "each rank would add it, and the sum would have it once for each"}),
    "a linear map of a sum is the sum of its values",
)

gradient_of_a_gather = question(
    "pause-gradient-of-a-gather",
    "An all-gather makes copies of what was sharded. What is sent on the way back?",
    Chosen("backward", "reduce-scatter", {
        "nothing": "each rank's gradient is a summand of its own",
        "all-gather": "which placement is the gradient of copies?",
        "all-reduce": "the gradient shall be sharded: nobody needs the whole"}),
    "the gradient of copies is partial, that of sharded is sharded",
)

lines_that_send_back = question(
    "pause-lines-that-send-back",
    "Line (2) sends nothing forward, line (6) is an all-reduce. How many of the eight lines send "
    "something on the way back?",
    Asked("lines", 1, slips={
          2: "a sum's summands all have the sum's gradient; does anybody need to send it?",
          0: "what becomes of copies on the way back?",
          8: "does a local product send?"}),
    "line (2): the gradient of copies is partial, and adding it up is the all-reduce f",
)

where_gradients_begin = question(
    "pause-where-gradients-begin",
    "Along dp the loss is partial. With which gradient of its own summand does each rank begin?",
    Asked("gradient", 1, slips={
          0.5: "the loss is the sum of the summands, not their mean",
          2: "of a sum, what is the gradient of one summand?"}),
    "a sum grows by as much as one of its summands: the gradient of partial is copies, here of 1",
)

sizes_to_check = question(
    "pause-sizes-to-check",
    "A step was typed, and then run on 4 ranks. It is to run on 8, 64 and 512. For how many of "
    "these sizes must it be typed anew?",
    Asked("sizes", 0, slips={
          3: "at which line do the rules look at the number of ranks?",
          1: "at which line do the rules look at the number of ranks?"}),
    "types name axes, not their sizes; whether parts are equal, or fit, is another question",
)

gradient_without_f = question(
    "pause-gradient-without-f",
    "Take copy_to_ranks out of Megatron's block. Which of its three gradients comes out wrong?",
    Chosen("weight", "g", {
        "v": "what it needs is h, which is right, and the gradient of y, which all ranks have",
        "w": "what it needs is x, which is right, and the gradient of its own columns of h"}),
    "g lies before the missing line: its gradient is made of one rank's summand",
)

residual_of_eight = question(
    "pause-residual-of-eight",
    "Eight ranks each add the residual to their summand before the sum. How many times does the "
    "block's result have it?",
    Asked("times", 8, slips={
          1: "the sum over the ranks adds what each of them has",
          7: "and that of the rank itself?"}),
    "once for each rank",
)

eight_times_the_tokens = question(
    "pause-eight-times-the-tokens",
    "The same block with 65,536 tokens instead of 8,192. How much would each rank send forward in "
    "the program above?",
    Asked("sent", _STREAM, "bytes", {
          _STREAM / 8: "the stream has a row for each token",
          2 * _STREAM: "a stream is added up once on the way forward",
          _STREAM * 8 / 7: "a ring sends a part of the stream, twice"}),
    "eight times as much; and the search need not stay with this program",
)

which_travels = question(
    "pause-which-travels",
    "A block of width 4,096 and inner width 16,384. From how many tokens on do gathered weights "
    "send less than summed activations?",
    Asked("tokens", 16384, slips={
          4096: "compare the stream, tokens times width, with a weight, width times inner width"}),
    "tokens times width against width times inner width: the width cancels",
)

same_rows_on_eight = question(
    "pause-same-rows-on-eight",
    "Eight ranks read the same eighth of the batch, and the losses are added. How many times the "
    "gradient of that eighth is the result?",
    Asked("times", 8, slips={
          1: "each rank's gradient is a summand",
          64: "each rank has an eighth of the batch, once"}),
    "eight equal summands; seven eighths of the batch are not in it",
)

_LINE = Placed.on(Mesh.of(tp=4), (8, 8), tp=Shard(0))
gather_and_chunk = question(
    "pause-gather-and-chunk",
    "On 4 ranks: how many times the bytes of turning does 'allgather + chunk' send?",
    Asked("times", Change("tp", _LINE, _LINE.but(tp=Replicate())).sent_bytes(1)
          / Change("tp", _LINE, _LINE.but(tp=Shard(1))).sent_bytes(1), slips={
          8: "that was on eight ranks",
          1: "who needs the whole tensor?"}),
    "once more the number of ranks",
)

groups_of_a_mesh = question(
    "ask-groups-of-a-mesh",
    "256 ranks on a mesh of pp = 4, dp = 8, tp = 8. How many groups are there along dp?",
    Asked("groups", _NODES.size // 8, slips={
          8: "that is how many members each has",
          64: "the other axes are pp and tp, and pp has 4 places",
          128: "that is all groups of the mesh"}),
    "one for each place along pp and tp",
)

rows_to_columns = question(
    "ask-rows-to-columns",
    "A matrix of 256 MB lies in rows on 16 ranks and is needed in columns. How many MB does a rank "
    "send?",
    Asked("MB", 256 * _TURNED, slips={
          256 * _GATHERED: "that is an all-gather; who needs the whole matrix?",
          16: "it keeps a sixteenth of what it has"}),
    "of its 16 MB it keeps one sixteenth",
)

refused_line = question(
    "ask-refused-line",
    "A norm's weight is replicated along tp, the stream is sharded by tokens along tp. The product "
    "of the two is refused. What is missing?",
    Chosen("line", "copy_to_ranks of the weight", {
        "all_gather of the stream": "that would be right, and it is not what is missing",
        "sum_over_ranks of the product": "the product is no sum: each rank has its own tokens",
        "own_slice of the weight": "every token needs the whole weight"}),
    "each rank uses it on tokens of its own, so its gradient is a summand on each",
)
