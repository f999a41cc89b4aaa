"""Three walls: what a run cannot hold, cannot finish, and cannot divide any further.

The state of a model adds up over its parameters, so it can be split; its work is a product of
parameters and tokens, so that can be split too. What the ranks say to one another after each step
does not shrink with their number: it is the third wall.
"""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import ceil, sqrt
from dtlib.models.work import adam_state_bytes, training_time


@formula(
    r"P_\text{hold}",
    "",
    "Rajbhandari et al. 2020",
    "the state is split evenly; activations and buffers need room besides",
)
def least_devices(params, memory):
    """The fewest devices that can hold what Adam keeps of a model.

    The bytes of parameters, gradients and optimizer state over those of one device.

    >>> least_devices(params=13e9, memory=80e9)
    3
    """
    return ceil(adam_state_bytes(params) / memory)


@formula(
    r"\Psi_\text{memory}",
    "",
    "Rajbhandari et al. 2020",
    "16 bytes a parameter, split evenly; activations and buffers need room besides",
)
def memory_wall_params(P, memory):
    """The largest model whose training state `P` devices can hold together.

    All bytes over sixteen. Not rounded.

    >>> memory_wall_params(P=1, memory=80e9)
    5000000000.0
    """
    return P * memory / 16


@formula(
    r"D_\text{max}",
    "",
    "Kaplan et al. 2020, solved for the tokens",
    "all ranks equally fast, nothing waits for the network",
)
def affordable_tokens(params, P, peak, mfu, deadline):
    """The most tokens that a model can be trained on before the deadline.

    The work that the ranks do until then, over six per parameter.

    >>> affordable_tokens(params=1e9, P=6, peak=1e15, mfu=0.5, deadline=1e6)
    500000000000.0
    """
    return deadline * P * peak * mfu / (6 * params)


@formula(
    r"\Psi_\text{time}",
    "",
    "Kaplan et al. 2020, solved for the parameters",
    "tokens in proportion to parameters; nothing waits for the network",
)
def time_wall_params(P, peak, mfu, deadline, tokens_per_param):
    """The largest model that `P` ranks can train before the deadline.

    With r tokens for each parameter the work is 6 r times the square of the parameters, so the
    parameters grow with the square root of the ranks. Not rounded.

    >>> time_wall_params(P=4, peak=1e15, mfu=0.5, deadline=6e6, tokens_per_param=20)
    10000000000.0
    """
    return sqrt(deadline * P * peak * mfu / (6 * tokens_per_param))


@formula(
    r"T_\text{exchange}",
    "s",
    "Patarasuk and Yuan 2009 for the bytes of a rank",
    "pure data parallelism, 2 bytes a gradient, no latency, nothing hidden",
)
def gradient_exchange_time(params, P, beta):
    """How long it takes to add up the gradients of one step.

    The busiest rank must send nearly twice the two bytes of each parameter; a ring does. `beta` is
    one rank's: in a node of many ports `Node.ring_bandwidth`. One rank needs no time.

    >>> gradient_exchange_time(params=1e9, P=2, beta=50e9)
    0.04
    """
    return 4 * (P - 1) / P * params / beta


@formula(
    r"T_\text{run}",
    "s",
    "Amdahl 1967, with the exchange of gradients as what does not divide",
    "pure data parallelism, a fixed batch, exchange after computation, no latency",
)
def exchanging_training_time(params, tokens, P, peak, mfu, batch_tokens, beta):
    """How long a run takes whose ranks add up their gradients after every step.

    The time to compute, and for each of the D/D_step steps one exchange.

    >>> exchanging_training_time(1e9, 1e10, P=1, peak=1e15, mfu=0.5, batch_tokens=1e6, beta=1e9)
    120000.0
    """
    return training_time(params, tokens, P, peak, mfu) + (
        tokens / batch_tokens * gradient_exchange_time(params, P, beta)
    )


@formula(
    r"D_\text{run}",
    "",
    "the time of a run with exchange, solved for the tokens",
    "pure data parallelism, a fixed batch, exchange after computation, no latency",
)
def exchanging_affordable_tokens(params, P, peak, mfu, deadline, batch_tokens, beta):
    """The most tokens before the deadline, when gradients are exchanged after every step.

    The deadline over the time that one token takes, its share of a step's exchange included; a
    bandwidth without limit gives `affordable_tokens`.

    >>> exchanging_affordable_tokens(1e9, 6, 1e15, 0.5, 1e6, batch_tokens=1e6, beta=1e99)
    500000000000.0
    """
    return deadline / (
        6 * params / (P * peak * mfu) + 4 * (P - 1) / P * params / (batch_tokens * beta)
    )


@formula(
    r"P_\text{exchange}",
    "",
    "computing and exchanging set equal",
    "pure data parallelism, a fixed batch, no latency",
)
def exchange_wall_ranks(peak, mfu, batch_tokens, beta):
    """The number of ranks with which a step exchanges for as long as it computes.

    Set the two terms of a step equal; the number of parameters cancels. Not rounded.

    >>> exchange_wall_ranks(peak=1e15, mfu=0.5, batch_tokens=1e6, beta=400e9)
    1201.0
    """
    return 1 + 3 * batch_tokens * beta / (2 * peak * mfu)
