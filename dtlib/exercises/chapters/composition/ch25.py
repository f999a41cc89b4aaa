"""The exercises of chapter 25, Four axes and five, in the order of its page."""

from collections.abc import Iterator

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Chosen, Numbers, one_of
from dtlib.exercises.judge import items
from dtlib.exercises.judges.arrays import same_array
from dtlib.exercises.judges.axes import adds_over, groups_of_13, most_first, names_the_missing
from dtlib.later import np

# fmt: off
_SETS = ("none", "dp", "dp cp", "dp cp tp", "dp cp and half of tp")

six_weights = Numbers(
    "ex-six-weights",
    About("Six more weights", "compute", 1, 12,
          "read off a weight's use over which axes its gradient is added"),
    one_of(
        _SETS,
        shared=("dp cp", "its columns are its own; who has other tokens?"),
        up_bias=("dp cp", "a bias of columns is cut with them; who has other tokens?"),
        down_bias=("dp cp tp", "it is added behind the sum: to which tokens, on each rank?"),
        positions=("dp cp tp", "each rank looks up the rows of its own tokens: who has others?"),
        key=("dp cp and half of tp", "two ranks of tp in a row have one key head, for other heads"),
        expert=("none", "how many ranks have this expert?"),
    ),
    "each axis that cuts a letter which the weight has not, and no other",
    keyed=True,
)


def _summed(spec, cuts, *, result=True, plain=True):
    operands, out = spec.split("->")
    weight = operands.split(",")[-1]
    return {axis for axis, letter in cuts.items()
            if (letter or not plain) and (not letter or letter not in weight)
            and (result or not letter or letter not in out)}


def _uses() -> Iterator[tuple[str, tuple]]:
    for spec, cuts in (
        ("bsh,hf->bsf", {"dp": "b", "cp": "s", "tp": "f"}),
        ("bsh,h->bsh", {"dp": "b", "cp": "s", "tp": "s"}),
        ("bsh,h->bsh", {"dp": "b", "cp": "s", "tp": ""}),
        ("bsf,fh->bsh", {"dp": "b", "cp": "s", "tp": "f"}),
        ("bsnd,bth,hd->bsnt", {"dp": "b", "cp": "t", "tp": "n"}),
        ("eth,ehf->etf", {"edp": "t", "ep": "e", "tp": "f"}),
        ("bsv,vh->bsh", {"dp": "", "cp": "s", "tp": "v"}),
    ):
        yield f"{spec} with {cuts}", (spec, cuts)


axes_of_a_use = Function(
    "ex-axes-of-a-use",
    About("The rule in two lines", "derive", 2, 15, "derive reduction axes from an einsum"),
    "my_axes(spec, cuts)", _summed, _uses, adds_over,
    "the axes of seven uses, among them one that divides nothing",
    {
        "an axis that cuts nothing has the whole gradient on every rank": {"plain": False},
        "the letters that count are those the weight has not, in the result or not":
            {"result": False},
    },
)

_TOKENS_OF_13 = [*range(1, 4 * 2 * 4, 4)]
_WITH_13 = {"dense": _TOKENS_OF_13, "exchange": _TOKENS_OF_13[:4], "expert": _TOKENS_OF_13[3::4]}


carved_out = Made(
    "ex-carved-out",
    About("Carved out", "compute", 1, 10, "find the groups of experts inside dp x cp"),
    lambda answer: groups_of_13(answer, _WITH_13), lambda: _WITH_13,
    "eight ranks add a dense gradient, four exchange tokens, two add an expert's gradient",
    {
        "expert: eight ranks in a row": lambda: _WITH_13 | {"expert": [9, 13]},
        "exchange: rank 13 is in its own group": lambda: _WITH_13 | {"exchange": [17, 21, 25, 29]},
        "exchange: ranks with another place along tp":
            lambda: _WITH_13 | {"exchange": [12, 13, 14, 15]},
        "expert must have 2 items": lambda: _WITH_13 | {"expert": _TOKENS_OF_13},
    },
)

no_fifth_factor = Numbers(
    "ex-no-fifth-factor",
    About("No fifth factor", "compute", 1, 8, "count ranks where experts are carved out"),
    [
        Asked("gpus", 16 * 32 * 8 * 2, "", {
              16 * 32 * 8 * 2 * 16: "whose tokens would the ranks of a fifth factor have?",
              16 * 32 * 8: "four axes have ranks of their own"}),
        Asked("replicas", 16 * 2 / 16, "", {
              16: "ep is cut out of dp and cp: what is left of their product?",
              32: "that is in how many ranks a dense weight lies"}),
        Asked("largest", 32, "", {
              128: "an expert each: but ep must divide the ranks that it is cut out of",
              16: "cp counts as well"}),
    ],
    "dp x tp x pp x cp, and ep divides dp x cp",
    keyed=True,
)

_OWN = 70e9 / (8 * 8)
_MICRO = 10 * 34 * 2 * 2**15 * 8192 / 8
_INPUTS = 10 * 2 * 2 * 2**15 * 8192 / 8

four_eights = Numbers(
    "ex-four-eights",
    About("Eight to the fourth", "compute", 2, 15,
          "account for the memory of four axes", ("x25.1",)),
    [
        Asked("over_dp", 4 * _OWN + 12 * _OWN / 8, "bytes", {
              16 * _OWN: "ZeRO's stage 1 divides the optimizer's 12 bytes",
              16 * _OWN / 8: "stage 1 divides neither weights nor gradients"}),
        Asked("over_dp_and_cp", 4 * _OWN + 12 * _OWN / 64, "bytes", {
              4 * _OWN + 12 * _OWN / 8: "who else holds the same weights?"}),
        Asked("micro_batch", _MICRO, "bytes", {
              _MICRO * 8: "tp divides it, too, with sequence parallelism",
              _MICRO / 10: "ten layers on a stage"}),
        Asked("stage_0", 8 * _MICRO, "bytes", {
              _MICRO: "1F1B: how many micro-batches are under way on the first of eight stages?"}),
        Asked("recomputed", 8 * _INPUTS, "bytes", {
              _INPUTS: "all micro-batches under way keep their inputs",
              8 * _INPUTS / 2: "two bytes for each number"}),
    ],
    "without recomputation the first stage does not fit, by far",
    keyed=True,
)

_COPIES = 16384 / 8 * 2
_AWAY = _COPIES * 7 / 8

tokens_to_experts = Numbers(
    "ex-tokens-to-experts",
    About("Tokens to experts", "compute", 1, 8,
          "count what an all-to-all of experts sends", ("x25.2",)),
    [
        Asked("each expert", 16384 * 2 / 64, "", {16384 / 64: "two copies of each token"}),
        Asked("sent", _AWAY, "", {
              _COPIES: "an eighth is at home already", _AWAY / 2: "two copies of each token"}),
        Asked("one rank", _AWAY * 8192, "bytes", {
              _AWAY * 4096: "two bytes for each number", _COPIES * 8192: "an eighth stays"}),
        Asked("all ranks, one step", 4 * 8 * _AWAY * 8192, "bytes", {
              2 * 8 * _AWAY * 8192: "the gradients travel as well, both ways",
              8 * _AWAY * 8192: "that is the way there, forward: what else travels?"}),
    ],
    "there and back, forward and backward",
)

_SHARE = 2 * 2 * 16384 * 8192 * 2

ring_and_gather = Numbers(
    "ex-ring-and-gather",
    About("A ring or a gather", "compute", 1, 10,
          "compare the buffers of two ways of attention", ("x25.3",)),
    [
        Asked("hops", 7, "", {8: "the first step uses a rank's own keys"}),
        Asked("two_buffers", 2 * _SHARE, "bytes", {
              _SHARE: "one is in use while another arrives",
              _SHARE / 2: "keys and values; and one arrives while another is used"}),
        Asked("gathered", 8 * _SHARE, "bytes", {4 * _SHARE: "keys and values of all tokens"}),
        Asked("saving", 4, "", {8: "how many shares does the ring hold at once?"}),
        Asked("eighty_layers", 2 * _SHARE, "bytes", {
              160 * _SHARE: "does a layer's buffer outlive the layer?"}),
        Asked("grouped", 2 * _SHARE / 8, "bytes", {
              2 * _SHARE: "one key head for eight query heads: whose width counts?"}),
    ],
    "half as many times less as there are ranks, once, and not for each layer",
    keyed=True,
)

places_of_eight = Numbers(
    "ex-places-of-eight",
    About("Places of eight experts", "compute", 1, 10,
          "count what a capacity turns away and leaves empty", ("x25.4",)),
    [
        Asked("capacity", 156, "", {125: "times 1.25", 1250: "of all experts together"}),
        Asked("dropped", 238, "", {
              300 + 250: "only what is beyond the places", 144: "a second expert is full as well"}),
        Asked("empty", (8 * 156 - 762) / (8 * 156), "", {
              0.2: "so much were spare with equal loads", 1 - 1000 / 1248: "who is turned away?"}),
        Asked("factor", 2.4, "", {1.25 * 1.238: "the busiest decides: 300 copies",
              0.3: "over the mean, which is an eighth"}),
    ],
    "what is turned away here leaves places empty there",
    keyed=True,
)

_GROWN = (63 / 64) / (15 / 16)

four_times_dp = Numbers(
    "ex-four-times-dp",
    About("Four times the replicas", "derive", 2, 15,
          "say which volumes change with the number of replicas", ("x25.5",)),
    [
        Asked("tp", 1 / 4, "", {1: "the batch stays: how many micro-batches has a replica now?"}),
        Asked("cp", 1 / 4, "", {1: "a ring for each layer and micro-batch"}),
        Asked("pp", 1 / 4, "", {4: "a stage passes on each of its micro-batches"}),
        Asked("dp", _GROWN, "", {
              4: "a ring sends nearly twice the gradients, on however many ranks",
              1 / 4: "once a step, whatever the micro-batches",
              1: "nearly: a ring has more ranks now"}),
        Asked("tp_weak", 1, "", {1 / 4: "now the batch grows with the replicas", 4: "per rank"}),
        Asked("dp_weak", _GROWN, "", {
              4: "does a rank have more weights in a larger batch?"}),
    ],
    "what counts micro-batches falls with them, and gradients stay",
    keyed=True,
)

_LAYERS, _MICRO_BATCHES, _PART = 10, 16, 2 * 2**14 * 8192
_SENT = {
    "tp": _LAYERS * _MICRO_BATCHES * 8 * 7 / 8 * _PART,
    "ep": _LAYERS * _MICRO_BATCHES * 4 * 7 / 8 * 2 * _PART / 8,
    "cp": _LAYERS * _MICRO_BATCHES * 3 * 2 * 7 / 8 * 8 * _PART / 64,
    "dp": 2 * 63 / 64 * 2 * 5e9,
    "pp": 2 * _MICRO_BATCHES * _PART / 8,
}


order_of_five = Made(
    "ex-order-of-five",
    About("Which one is innermost?", "design", 2, 20,
          "order axes by bytes and how often they are sent", ("x25.6",)),
    lambda answer: most_first(answer, _SENT), lambda: ["tp", "ep", "cp", "dp", "pp"],
    "from the inside: tensor, experts, context, data, pipeline",
    {
        "ep stands where a rank has more to send": lambda: ["ep", "cp", "tp", "pp", "dp"],
        "dp stands where a rank has more to send": lambda: ["tp", "dp", "ep", "cp", "pp"],
        "each of cp, dp, ep, pp, tp, once": lambda: ["tp", "tp", "cp", "dp", "pp"],
    },
)


def _disagree(gradients):
    return {axis for dim, axis in enumerate(("dp", "cp", "tp"))
            if (gradients != np.take(gradients, [0], dim)).any()}


def _through_rank_0(gradients):
    rows = {"dp": gradients[:, 0, 0], "cp": gradients[0, :, 0], "tp": gradients[0, 0]}
    return {axis for axis, row in rows.items() if (row != row[0]).any()}


def _broken_sums() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(25)
    for missing in ((), ("cp",), ("dp",), ("tp",), ("dp", "tp"), ("cp", "tp")):
        terms = rng.integers(-9, 10, (2, 4, 2))
        for dim, axis in enumerate(("dp", "cp", "tp")):
            if axis not in missing:
                terms = np.broadcast_to(terms.sum(dim, keepdims=True), terms.shape)
        yield f"{' and '.join(missing) or 'nothing'} left out", (terms.copy(),)
    alike = np.array([[3, 3], [3, 7]])[:, None, :]
    yield "dp and tp left out, some terms alike", (np.repeat(alike, 4, axis=1),)


missing_axis = Function(
    "ex-missing-axis",
    About("Which axis was left out?", "design", 3, 20,
          "find a missing sum from the gradients of all ranks"),
    "my_missing(gradients)", _disagree, _broken_sums, names_the_missing,
    "found in seven runs, three of them with two mistakes",
    {
        "ranks that agree were added; those that differ were not":
            lambda gradients: {"dp", "cp", "tp"} - _disagree(gradients),
        "two ranks may agree by chance: look at all": _through_rank_0,
    },
)


def _pairs(tokens, own, *, cut_first=False):
    if cut_first:
        return tokens[own][:-1], tokens[own][1:]
    return tokens[:-1][own], tokens[1:][own]


def _zigzags() -> Iterator[tuple[str, tuple]]:
    rng = np.random.default_rng(17)
    for P, n in ((2, 8), (4, 16), (4, 32)):
        pieces = np.arange(n).reshape(2 * P, -1)
        for r in range(P):
            own = np.concatenate([pieces[r], pieces[2 * P - 1 - r]])
            yield f"rank {r} of {P}", (rng.integers(0, 50, n + 1), own)


def _same_pairs(given, right: tuple, tokens, own) -> None:
    inputs, targets = items(given, "(inputs, targets)", 2)
    same_array(inputs, right[0], "inputs")
    same_array(targets, right[1], "targets",
               place=lambda i, _: "the token that follows in the sequence may lie on another rank")


shift_then_cut = Function(
    "ex-shift-then-cut",
    About("Shift, then cut", "repair", 2, 12, "pair tokens with targets that lie on another rank"),
    "my_pairs(tokens, own)", _pairs, _zigzags, _same_pairs,
    "every token of every rank has the target that one process gives it",
    {"inputs has shape": {"cut_first": True}},
)

divide_by_tokens = Numbers(
    "ex-divide-by-tokens",
    About("Divide once, by the tokens", "derive", 2, 15,
          "weigh ranks by their tokens, and experts like all else"),
    [
        Asked("first", (1 / 4 / 700) / (1 / 1000), "", {
              0.25: "over its due: a token's share times 1,000", 0.7: "that is its rank's share"}),
        Asked("last", (1 / 4 / 50) / (1 / 1000), "", {
              0.25: "over its due: a token's share times 1,000", 0.05: "its rank's share"}),
        Asked("expert", 4, "", {2: "two summands, each a mean over its own two ranks' tokens?",
              8: "over the eight ranks' tokens is what is due", 1: "by how much is too little?"}),
        Chosen("right everywhere", "all tokens of the batch", {
               "own tokens": "then a token on a rank with few counts more",
               "number of ranks": "tokens count, not ranks",
               "replicas of the expert": "the others' tokens are in the sum already"}),
    ],
    "sums everywhere, and one division that knows nothing of ranks",
    keyed=True,
)

_HIDES = 989e12 / 50e9

hidden_hop = Numbers(
    "ex-hidden-hop",
    About("When a hop hides", "compute", 2, 12,
          "find the share of a sequence from which a ring hides, under other axes"),
    [
        Asked("own_keys", _HIDES, "", {_HIDES / 2: "two bytes for each number"}),
        Asked("grouped", _HIDES / 16, "", {
              _HIDES / 8: "eight key heads of 128 heads: how many share one?"}),
        Asked("tp_8", _HIDES / 16, "", {
              _HIDES / 16 / 8: "tp divides the work and the bytes of a hop"}),
        Asked("tp_16", _HIDES / 8, "", {
              _HIDES / 16: "a key head is whole on each rank: how many query heads has it there?"}),
        Asked("shown_share", 131072 / 16 / (_HIDES / 16), "", {
              131072 / 16 / _HIDES: "with grouped heads, please"}),
    ],
    "an axis that divides both sides changes nothing, until it divides one of them only",
    keyed=True,
)
