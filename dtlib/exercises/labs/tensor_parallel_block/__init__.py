"""The lab 'A tensor-parallel transformer block'."""

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.declarations.on_ranks import OnRanks
from dtlib.exercises.labs.tensor_parallel_block.laws import (
    block_law,
    conjugate_law,
    mlp_law,
    shard_cases,
    shard_law,
    vocabulary_law,
)
from dtlib.exercises.labs.tensor_parallel_block.programs import (
    both,
    cut_off,
    f,
    g,
    gathered,
    gathered_loss,
    in_place,
    librarys_f,
    nothing,
    split_block,
    split_loss,
    split_mlp,
    split_shard,
)

# fmt: off
_MESSAGE = 2048 * 4096 * 2
_SENT = 4 * 1.5 * _MESSAGE
_SUMS = {1: "attention and feed-forward both end in a sum", 4: "that is both passes together",
         6: "queries, keys and values read the same input: one sum is enough"}

predict = Numbers(
    "ex-lab-tp-predict",
    About("Predict the sums", "compute", 1, 5,
          "count a block's collectives and bytes before running"),
    [
        Asked("forward", 2, slips=_SUMS),
        Asked("backward", 2, slips=_SUMS),
        Asked("sent_bytes", _SENT, "bytes", {
              _SENT / 2: "that is one pass of two", _SENT / 4: "that is one all-reduce",
              4 * _MESSAGE: "an all-reduce sends more than its message once, less than twice",
              8 * _MESSAGE: "an all-reduce sends a little less than its message twice",
              4 * _SENT: "that is all ranks together", _SENT / 2048: "that is one token"},
              tolerance=1e-6),
    ],
    "the sums of one block, and what each rank sends for them in a step",
    keyed=True,
)

conjugates = OnRanks(
    "ex-lab-tp-conjugates",
    About("Two conjugate operators", "design", 2, 15,
          "write an autograd function whose backward pass is the transpose", needs="torch"),
    ("f(comm, x)", "g(comm, x)"),
    (f, g),
    conjugate_law,
    "each is the other one backwards, on 2 and 4 ranks",
    {
        "f does not hand on x": (g, f),
        "f, rank 0: the gradient is wrong: only this rank's share": (nothing, g),
        "g, rank 0: the gradient is wrong: exactly P times": (f, both),
        "g, rank 0: the result is wrong: only this rank's share": (f, nothing),
        "no gradient arrives at x": (f, cut_off),
        "g changes its input": (f, in_place),
        "add, don't gather": (f, gathered),
        "comes from dtlib.parallelism: write your own": (librarys_f, g),
    },
)

mlp = OnRanks(
    "ex-lab-tp-mlp",
    About("A tensor-parallel MLP", "design", 2, 15, "split two matrices so that one sum is enough",
          needs="torch"),
    "mlp(comm, x, w)",
    split_mlp,
    mlp_law,
    "output, dX and every dW of the dense MLP, with one sum forwards and one backwards",
    {
        "dX is wrong: only this rank's share": {"f": nothing},
        "the gradient of up.weight is wrong: exactly P times": {"g": both},
        "how often is each of them added": {"bias": "each"},
        "the gradient of down.bias is wrong: exactly a P-th": {"bias": "shared out"},
        "the output differs": {"bend": "after"},
        "rank 0: the output": {"g": nothing},
        "more collectives": {"gathers": True},
        "add, don't gather": {"g": gathered},
        "the output": lambda comm, x, w: x,
        "int where a tensor should be": lambda comm, x, w: 1,
    },
)

shard = Function(
    "ex-lab-tp-shard",
    About("Cut the weights", "design", 2, 10,
          "say for each weight along which side it is cut, and why", needs="torch"),
    "shard(weights, rank, size)",
    split_shard,
    shard_cases,
    shard_law,
    "every weight of the block, cut where heads and inner width are cut, whole where not",
    {
        "every rank has its own share of the work": lambda weights, rank, size: weights,
        "a norm works on all numbers of a token": {"whole": "none"},
        "what is added up is cut along its inputs, all else along its outputs":
            lambda weights, rank, size: split_shard(weights, rank, size, rows=("up.weight",)),
        "ranks count from 0, as chunks do": lambda *args: split_shard(*args, turn=1),
    },
)

block = OnRanks(
    "ex-lab-tp-block",
    About("The whole block", "design", 3, 25,
          "place f and g in a block with grouped heads and norms", needs="torch"),
    "block(comm, x, w, head_dim)",
    split_block,
    block_law,
    "output, dX and every dW of the dense block, grouped heads too; 2 sums + 2 sums",
    {
        "the gradient of attention_norm.weight": {"f": nothing},
        "the gradient of attention_norm.weight differs": {"g": both},
        "the gradient of attention_norm.weight is wrong: only this rank's share":
            {"place": "before norm"},
        "right, but more collectives backwards": {"place": "each"},
        "the output differs": {"heads": 2},
    },
)

wrong_g = Numbers(
    "ex-lab-tp-wrong-g",
    About("What a wrong g does to depth", "compute", 2, 8,
          "follow a wrong transpose through several layers"),
    [
        Asked("one MLP", 4, slips={1: "the loss is unchanged; are the gradients?",
              16: "that is two of them in a row"}),
        Asked("first of three MLPs", 64, slips={4: "every wrong g on the way back counts",
              12: "do the factors add up?",
              16: "how many wrong g lie between the loss and the first MLP, its own included?"}),
    ],
    "so a wrong g grows with depth, and an optimizer that normalises gradients hides it",
)

vocabulary = OnRanks(
    "ex-lab-tp-vocabulary",
    About("Cross entropy over a split vocabulary", "design", 3, 20,
          "take a softmax whose columns lie on many ranks", needs="torch"),
    "vocab_cross_entropy(comm, logits, targets)",
    split_loss,
    vocabulary_law,
    "the loss and the gradient of every logit; three numbers per token travel, no logit",
    {
        "the loss is not finite": {"shift": False},
        "dlogits is wrong: exactly P times": {"g": both},
        "the loss differs": {"clamp": False},
        "rank 0: the loss differs": {"g": nothing},
        "rank 0: the loss": {"mean": False},
        "more than three numbers per token": gathered_loss,
        "dlogits is missing": lambda *args: split_loss(*args).detach().requires_grad_(),
    },
)
