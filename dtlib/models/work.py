"""The work of training a transformer, as formulas: parameters, state, arithmetic, utilisation.

`TransformerSpec` counts exactly; these equations keep the leading terms, which is what an estimate
on paper needs. Tests say where the two agree to the last digit and by how much they differ.
"""

from dtlib.formulas.formula import formula


@formula(r"C", "FLOP", "Kaplan et al. 2020", "dense model, attention and embeddings neglected")
def training_flops(params, tokens):
    """The arithmetic of a whole training run.

    Per parameter and token, one multiplication and one addition forward, and twice as much backward
    (once for the inputs, once for the weights).

    >>> training_flops(params=175e9, tokens=300e9)
    3.15e+23
    """
    return 6 * params * tokens


@formula(
    r"T_\text{train}",
    "s",
    "Kaplan et al. 2020; Chowdhery et al. 2023 for the MFU",
    "all ranks equally fast, at the same MFU throughout",
)
def training_time(params, tokens, P, peak, mfu):
    """How long a training run takes.

    The work over the rate at which `P` ranks do useful arithmetic.

    >>> round(training_time(params=175e9, tokens=300e9, P=1024, peak=312e12, mfu=1) / 86400, 2)
    11.41
    """
    return training_flops(params, tokens) / (P * peak * mfu)


@formula(
    r"\Psi_\text{dense}",
    "",
    "Kaplan et al. 2020; Narayanan et al. 2021",
    (
        "four matrices of attention, a feed-forward block four times as wide as the stream, "
        "separate input and output tables; biases, norms and learned positions neglected"
    ),
)
def dense_params(layers, hidden, vocab):
    """Parameters of the classical transformer, from its three largest dimensions.

    A layer holds four square matrices of attention and two of feed-forward, each four times as
    large; the vocabulary is held twice, at the input and at the output.

    >>> dense_params(layers=96, hidden=12288, vocab=50257) / 1e9
    175.18129152
    """
    return 12 * layers * hidden**2 + 2 * vocab * hidden


@formula(
    r"M_\text{Adam}",
    "B",
    "Rajbhandari et al. 2020",
    (
        "mixed precision: weights and gradients of 2 bytes; weights, momentum and variance "
        "of 4 bytes in the optimizer"
    ),
)
def adam_state_bytes(params):
    """Memory of weights, gradients and Adam's state together.

    2 + 2 bytes of weights and gradients, 4 + 4 + 4 of what the optimizer holds. Gradients that are
    summed in 4 bytes make it 18; activations come on top.

    >>> adam_state_bytes(params=7e9) / 1e9
    112.0
    """
    return 16 * params


@formula(
    r"M_\text{layer}",
    "B",
    "Korthikanti et al. 2023",
    "classical layer with dropout, 16-bit activations, no FlashAttention, one rank",
)
def layer_activation_bytes(seq, micro_batch, hidden, heads):
    """What one layer keeps of its forward pass, for its backward pass.

    34 bytes for each number of the residual stream, and 5 for each of the scores, of which every
    head has one per pair of tokens. `kept_tensors` lists them one by one.

    >>> layer_activation_bytes(seq=2048, micro_batch=1, hidden=12288, heads=96) / 2**20
    2736.0
    """
    return seq * micro_batch * hidden * (34 + 5 * heads * seq / hidden)


@formula(
    r"\rho_\text{full}",
    "",
    "Narayanan et al. 2021, whose factor 1 + s/6H it is",
    "classical layer; every token attends to all tokens; output table neglected",
)
def attention_flops_fraction(hidden, seq):
    """Arithmetic of the attention scores, as a share of the arithmetic of the layers' weights.

    12 H s over 72 H^2, per layer and token: the scores outgrow the weights at s = 6 H.

    >>> round(attention_flops_fraction(hidden=8192, seq=131072), 2)
    2.67
    """
    return seq / (6 * hidden)


@formula(
    r"\rho_\text{causal}",
    "",
    "Narayanan et al. 2021; half of it for the mask",
    ("classical layer; a token attends to itself and those before it; output table neglected"),
)
def causal_attention_flops_fraction(hidden, seq):
    """The same where half of all pairs of tokens is masked, and not computed.

    Half of the share without a mask. The diagonal is neglected: exactly (s + 1)/2 of s keys are
    left.

    >>> round(causal_attention_flops_fraction(hidden=8192, seq=4096), 3)
    0.042
    """
    return attention_flops_fraction(hidden, seq) / 2


@formula(
    r"\text{MFU}",
    "",
    "Chowdhery et al. 2023",
    "`flops` are the model's own: what the mathematics asks for, each operation once",
)
def model_flops_utilisation(flops, time, P, peak):
    """The share of the peak rate at which a run does the arithmetic that its model asks for.

    The model's work over what `P` ranks could have done in that time. Repeating work, as
    recomputation does, does not raise it.

    >>> model_flops_utilisation(flops=4e15, time=1, P=8, peak=1e15)
    0.5
    """
    return flops / (time * P * peak)


@formula(
    r"\text{HFU}",
    "",
    "Chowdhery et al. 2023; Korthikanti et al. 2023",
    "`repeated_flops` are done a second time, in recomputation",
)
def hardware_flops_utilisation(flops, repeated_flops, time, P, peak):
    """The share of the peak rate at which a run does arithmetic, useful or repeated.

    All the work that is done over what `P` ranks could have done in that time. Never below the MFU.

    >>> hardware_flops_utilisation(flops=3e15, repeated_flops=1e15, time=1, P=8, peak=1e15)
    0.5
    """
    return (flops + repeated_flops) / (time * P * peak)
