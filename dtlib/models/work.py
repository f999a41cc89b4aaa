"""The work of training a transformer, as formulas: parameters, state, arithmetic, utilisation.

`TransformerSpec` counts exactly; these equations keep the leading terms, which is what an estimate
on paper needs. Tests say where the two agree to the last digit and by how much they differ.
"""

from dtlib.formulas.formula import formula


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


@formula(
    symbol=r"\Psi_\text{dense}",
    unit="",
    source="Kaplan et al. 2020; Narayanan et al. 2021",
    conditions="four matrices of attention, a feed-forward block four times as wide as the stream, "
    "separate input and output tables; biases, norms and learned positions neglected",
)
def dense_params(layers, hidden, vocab):
    """Parameters of the classical transformer, from its three largest dimensions.

    Equation: a layer holds four square matrices of attention and two of feed-forward, each four
    times as large; the vocabulary is held twice, at the input and at the output.
    Arguments: `layers`, `hidden` and `vocab`, counts. Returns a count. Raises nothing.
    Source: Kaplan et al. 2020, without the tables; Narayanan et al. 2021, with them.

    >>> dense_params(layers=96, hidden=12288, vocab=50257) / 1e9
    175.18129152
    """
    return 12 * layers * hidden**2 + 2 * vocab * hidden


@formula(
    symbol=r"M_\text{Adam}",
    unit="B",
    source="Rajbhandari et al. 2020",
    conditions="mixed precision: weights and gradients of 2 bytes; weights, momentum and variance "
    "of 4 bytes in the optimizer",
)
def adam_state_bytes(params):
    """Memory of weights, gradients and Adam's state together.

    Equation: 2 + 2 bytes of weights and gradients, 4 + 4 + 4 of what the optimizer holds.
    Gradients that are summed in 4 bytes make it 18; activations come on top.
    Arguments: `params`, a count. Returns bytes. Raises nothing. Source: Rajbhandari et al. 2020.

    >>> adam_state_bytes(params=7e9) / 1e9
    112.0
    """
    return 16 * params


@formula(
    symbol=r"M_\text{layer}",
    unit="B",
    source="Korthikanti et al. 2023",
    conditions="classical layer with dropout, 16-bit activations, no FlashAttention, one rank",
)
def layer_activation_bytes(seq, micro_batch, hidden, heads):
    """What one layer keeps of its forward pass, for its backward pass.

    Equation: 34 bytes for each number of the residual stream, and 5 for each of the scores, of
    which every head has one per pair of tokens. `kept_tensors` lists them one by one.
    Arguments: `seq`, `micro_batch`, `hidden` and `heads`, counts. Returns bytes.
    Raises ZeroDivisionError for a width of 0. Source: Korthikanti et al. 2023.

    >>> layer_activation_bytes(seq=2048, micro_batch=1, hidden=12288, heads=96) / 2**20
    2736.0
    """
    return seq * micro_batch * hidden * (34 + 5 * heads * seq / hidden)


@formula(
    symbol=r"\rho_\text{full}",
    unit="",
    source="Narayanan et al. 2021, whose factor 1 + s/6H it is",
    conditions="classical layer; every token attends to all tokens; output table neglected",
)
def attention_flops_share(hidden, seq):
    """Arithmetic of the attention scores, as a share of the arithmetic of the layers' weights.

    Equation: 12 H s over 72 H^2, per layer and token: the scores outgrow the weights at s = 6 H.
    Arguments: `hidden` and `seq`, counts. Returns a ratio. Raises ZeroDivisionError for a width
    of 0. Source: Narayanan et al. 2021.

    >>> round(attention_flops_share(hidden=8192, seq=131072), 2)
    2.67
    """
    return seq / (6 * hidden)


@formula(
    symbol=r"\rho_\text{causal}",
    unit="",
    source="Narayanan et al. 2021; half of it for the mask",
    conditions="classical layer; a token attends to itself and those before it; output table "
    "neglected",
)
def causal_attention_flops_share(hidden, seq):
    """The same where half of all pairs of tokens is masked, and not computed.

    Equation: half of the share without a mask. The diagonal is neglected: exactly (s + 1)/2 of s
    keys are left. Arguments: `hidden` and `seq`, counts. Returns a ratio.
    Raises ZeroDivisionError for a width of 0. Source: Narayanan et al. 2021.

    >>> round(causal_attention_flops_share(hidden=8192, seq=4096), 3)
    0.042
    """
    return attention_flops_share(hidden, seq) / 2


@formula(
    symbol=r"\text{MFU}",
    unit="",
    source="Chowdhery et al. 2023",
    conditions="`flops` are the model's own: what the mathematics asks for, each operation once",
)
def model_flops_utilisation(flops, time, P, peak):
    """The share of the peak rate at which a run does the arithmetic that its model asks for.

    Equation: the model's work over what `P` ranks could have done in that time. Repeating work,
    as recomputation does, does not raise it.
    Arguments: `flops` FLOP of all ranks, `time` seconds, `P` ranks, `peak` FLOP/s of one rank.
    Returns a share. Raises ZeroDivisionError for no time. Source: Chowdhery et al. 2023.

    >>> model_flops_utilisation(flops=4e15, time=1, P=8, peak=1e15)
    0.5
    """
    return flops / (time * P * peak)


@formula(
    symbol=r"\text{HFU}",
    unit="",
    source="Chowdhery et al. 2023; Korthikanti et al. 2023",
    conditions="`repeated_flops` are done a second time, in recomputation",
)
def hardware_flops_utilisation(flops, repeated_flops, time, P, peak):
    """The share of the peak rate at which a run does arithmetic, useful or repeated.

    Equation: all the work that is done over what `P` ranks could have done in that time.
    Arguments: `flops` FLOP that the model asks for and `repeated_flops` on top, both of all ranks;
    `time` seconds, `P` ranks, `peak` FLOP/s of one rank. Returns a share, never below the MFU.
    Raises ZeroDivisionError for no time. Source: Chowdhery et al. 2023.

    >>> hardware_flops_utilisation(flops=3e15, repeated_flops=1e15, time=1, P=8, peak=1e15)
    0.5
    """
    return (flops + repeated_flops) / (time * P * peak)
