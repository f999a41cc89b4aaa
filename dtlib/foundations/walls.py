"""Three walls: what a run cannot hold, cannot finish, and cannot divide any further.

The state of a model adds up over its parameters, so it can be split; its work is a product of
parameters and tokens, so that can be split too. What the ranks say to one another after each step
does not shrink with their number: it is the third wall.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, sqrt
from dtlib.models.work import adam_state_bytes, training_time


@formula(
    symbol=r"P_\text{hold}",
    unit="",
    source="Rajbhandari et al. 2020",
    conditions="the state is split evenly; activations and buffers need room besides",
)
def least_devices(params, memory):
    """The fewest devices that can hold what Adam keeps of a model.

    Equation: the bytes of parameters, gradients and optimizer state over those of one device.
    Arguments: `params`, a count; `memory` bytes. Returns a whole number.
    Raises ZeroDivisionError for a memory of 0. Source: Rajbhandari et al. 2020 for the bytes.

    >>> least_devices(params=13e9, memory=80e9)
    3
    """
    return ceil(adam_state_bytes(params) / memory)


@formula(
    symbol=r"\Psi_\text{memory}",
    unit="",
    source="Rajbhandari et al. 2020",
    conditions="16 bytes a parameter, split evenly; activations and buffers need room besides",
)
def memory_wall_params(P, memory):
    """The largest model whose training state `P` devices can hold together.

    Equation: all bytes over sixteen. Arguments: `P` devices, `memory` bytes of each.
    Returns a count of parameters, not rounded. Raises nothing.
    Source: Rajbhandari et al. 2020 for the sixteen bytes.

    >>> memory_wall_params(P=1, memory=80e9)
    5000000000.0
    """
    return P * memory / 16


@formula(
    symbol=r"D_\text{max}",
    unit="",
    source="Kaplan et al. 2020, solved for the tokens",
    conditions="all ranks equally fast, nothing waits for the network",
)
def affordable_tokens(params, P, peak, mfu, deadline):
    """The most tokens that a model can be trained on before the deadline.

    Equation: the work that the ranks do until then, over six per parameter.
    Arguments: `params` and `P`, counts; `peak` FLOP/s; `mfu`, a share; `deadline` seconds.
    Returns a count of tokens. Raises ZeroDivisionError for no parameters.
    Source: `training_time`, solved for the tokens.

    >>> affordable_tokens(params=1e9, P=6, peak=1e15, mfu=0.5, deadline=1e6)
    500000000000.0
    """
    return deadline * P * peak * mfu / (6 * params)


@formula(
    symbol=r"\Psi_\text{time}",
    unit="",
    source="Kaplan et al. 2020, solved for the parameters",
    conditions="tokens in proportion to parameters; nothing waits for the network",
)
def time_wall_params(P, peak, mfu, deadline, tokens_per_param):
    """The largest model that `P` ranks can train before the deadline.

    Equation: with r tokens for each parameter the work is 6 r times the square of the parameters,
    so the parameters grow with the square root of the ranks.
    Arguments: `P` ranks, `peak` FLOP/s, `mfu`, a share, `deadline` seconds, `tokens_per_param`.
    Returns a count of parameters, not rounded. Raises ZeroDivisionError for no tokens.
    Source: `training_time`, solved for the parameters.

    >>> time_wall_params(P=4, peak=1e15, mfu=0.5, deadline=6e6, tokens_per_param=20)
    10000000000.0
    """
    return sqrt(deadline * P * peak * mfu / (6 * tokens_per_param))


@formula(
    symbol=r"T_\text{exchange}",
    unit="s",
    source="Patarasuk and Yuan 2009 for the bytes of a rank",
    conditions="pure data parallelism, 2 bytes a gradient, no latency, nothing hidden",
)
def gradient_exchange_time(params, P, beta):
    """How long it takes to add up the gradients of one step.

    Equation: the busiest rank must send nearly twice the two bytes of each parameter; a ring does.
    Arguments: `params` and `P`, counts; `beta` bytes/s of one rank in one direction, in a node of
    many ports `Node.ring_bandwidth`.
    Returns seconds; none for one rank. Raises ZeroDivisionError for `beta` or `P` of 0.
    Source: Patarasuk and Yuan 2009 (chapter 12 derives the bytes).

    >>> gradient_exchange_time(params=1e9, P=2, beta=50e9)
    0.04
    """
    return 4 * (P - 1) / P * params / beta


@formula(
    symbol=r"T_\text{run}",
    unit="s",
    source="Amdahl 1967, with the exchange of gradients as what does not divide",
    conditions="pure data parallelism, a fixed batch, exchange after computation, no latency",
)
def exchanging_training_time(params, tokens, P, peak, mfu, batch_tokens, beta):
    """How long a run takes whose ranks add up their gradients after every step.

    Equation: the time to compute, and for each of the D/D_step steps one exchange.
    Arguments: `params`, `tokens` and `P`, counts; `peak` FLOP/s; `mfu`, the share of it that a rank
    reaches while it computes; `batch_tokens` of one step; `beta` bytes/s.
    Returns seconds. Raises ZeroDivisionError for a rate or a batch of 0.
    Source: `training_time` and `gradient_exchange_time`.

    >>> exchanging_training_time(1e9, 1e10, P=1, peak=1e15, mfu=0.5, batch_tokens=1e6, beta=1e9)
    120000.0
    """
    return training_time(params, tokens, P, peak, mfu) + (
        tokens / batch_tokens * gradient_exchange_time(params, P, beta)
    )


@formula(
    symbol=r"D_\text{run}",
    unit="",
    source="the time of a run with exchange, solved for the tokens",
    conditions="pure data parallelism, a fixed batch, exchange after computation, no latency",
)
def exchanging_affordable_tokens(params, P, peak, mfu, deadline, batch_tokens, beta):
    """The most tokens before the deadline, when gradients are exchanged after every step.

    Equation: the deadline over the time that one token takes, its share of a step's exchange
    included; a bandwidth without limit gives `affordable_tokens`.
    Arguments: `params` and `P`, counts; `peak` FLOP/s; `mfu`, a share; `deadline` seconds;
    `batch_tokens` of one step; `beta` bytes/s. Returns a count of tokens.
    Raises ZeroDivisionError for a rate of 0. Source: `exchanging_training_time`.

    >>> exchanging_affordable_tokens(1e9, 6, 1e15, 0.5, 1e6, batch_tokens=1e6, beta=1e99)
    500000000000.0
    """
    return deadline / (
        6 * params / (P * peak * mfu) + 4 * (P - 1) / P * params / (batch_tokens * beta)
    )


@formula(
    symbol=r"P_\text{exchange}",
    unit="",
    source="computing and exchanging set equal",
    conditions="pure data parallelism, a fixed batch, no latency",
)
def exchange_wall_ranks(peak, mfu, batch_tokens, beta):
    """The number of ranks with which a step exchanges for as long as it computes.

    Equation: set the two terms of a step equal; the number of parameters cancels.
    Arguments: `peak` FLOP/s, `mfu`, a share, `batch_tokens` of one step, `beta` bytes/s.
    Returns a count, not rounded. Raises ZeroDivisionError for a rate of 0.
    Source: `exchanging_training_time`.

    >>> exchange_wall_ranks(peak=1e15, mfu=0.5, batch_tokens=1e6, beta=400e9)
    1201.0
    """
    return 1 + 3 * batch_tokens * beta / (2 * peak * mfu)
