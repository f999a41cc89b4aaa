"""The work of training a transformer, as a whole."""

from dtlib.foundations.formula import formula


@formula(
    symbol=r"C",
    unit="FLOP",
    source="Kaplan et al. 2020",
    conditions="dense model, attention and embeddings neglected",
)
def training_flops(params, tokens):
    """The arithmetic of a whole training run.

    Equation: per parameter and token, one multiplication and one addition forward, and twice as
    much backward (once for the inputs, once for the weights).
    Arguments: `params` and `tokens`, counts. Returns FLOP. Raises nothing.
    Source: Kaplan et al. 2020.

    >>> training_flops(params=175e9, tokens=300e9)
    3.15e+23
    """
    return 6 * params * tokens


@formula(
    symbol=r"T_\text{train}",
    unit="s",
    source="Kaplan et al. 2020; Chowdhery et al. 2023 for the MFU",
    conditions="all ranks equally fast, at the same MFU throughout",
)
def training_time(params, tokens, P, peak, mfu):
    """How long a training run takes.

    Equation: the work over the rate at which `P` ranks do useful arithmetic.
    Arguments: `params`, `tokens` and `P`, counts; `peak` FLOP/s of one rank; `mfu`, a share.
    Returns seconds. Raises ZeroDivisionError for a rate of 0.
    Source: Kaplan et al. 2020.

    >>> round(training_time(params=175e9, tokens=300e9, P=1024, peak=312e12, mfu=1) / 86400, 2)
    11.41
    """
    return training_flops(params, tokens) / (P * peak * mfu)
