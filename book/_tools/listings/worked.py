"""One worked value for a formula that rests on a machine: the book's here, the reader's beside it.

What a formula asks besides the machine is always the same, so that its entries can be compared.

>>> from dtlib.collectives import ring_all_reduce_time
>>> print(worked(ring_all_reduce_time))
For n = 1 GB, P = 64, over one port: <data value="ring_all_reduce_time(n=1*GB, ...)">40 ms</data>.
"""

from book._tools.expressions import Expression
from book._tools.prose_numbers import printed_like
from book._tools.yours import traced
from dtlib.explore.mathml import plain
from dtlib.formulas.formula import Formula
from dtlib.formulas.notation import NOTATION

# What a machine gives, and what it is called; the figures of a run have one name for all.
PORT, LINK, HOST, CARD = "over one port", "over NVLink", "over PCIe", "on an H100"
MACHINE = {
    "alpha": ("catalog['ib-ndr400'].alpha", PORT),
    "beta": ("catalog['ib-ndr400'].beta", PORT),
    "alpha_in": ("catalog['nvlink4'].alpha", LINK),
    "beta_in": ("catalog['nvlink4'].beta", LINK),
    "peak": ("catalog['h100-sxm'].peak('bf16')", CARD),
    "bandwidth": ("catalog['h100-sxm'].hbm_bandwidth", CARD),
    "memory": ("catalog['h100-sxm'].hbm_bytes", CARD),
}
RUN = {name: f"run.{name}" for name in ("params", "tokens", "batch_tokens", "mfu")}
GIVEN = {
    "n": "1*GB", "P": "64", "k": "8", "h": "7", "S": "64", "nodes": "8", "ranks_per_node": "8",
    "element_bytes": "2", "intensity": "100", "tp": "8", "ep": "8", "heads": "64", "kv_heads": "8",
    "flops": "1000*TFLOP", "bytes": "1*TB",
}  # fmt: skip
# Formulas whose link is another than a network port, or whose memory is the processor's.
OVER = {"tensor_forward_headroom": "nvlink4", "tensor_parallel_width": "nvlink4"}
OVER |= {"parameter_offload_tokens": "pcie5-x16", "gradient_offload_time": "pcie5-x16"}
WHERE = {"nvlink4": LINK, "pcie5-x16": HOST}
OF_THE_PROCESSOR = {"cpu_adam_time"}
LONGEST = 10  # letters: nobody reads a count of billions to its last digit


def worked(formula: Formula) -> str:
    """The sentence with the value, or '' where no machine plays a part in the formula."""
    names = formula.parameters
    known = MACHINE | RUN | GIVEN
    if formula.name in OF_THE_PROCESSOR or not set(names) <= set(known):
        return ""
    machine = dict(MACHINE)
    if link := OVER.get(formula.name):
        for name in ("alpha", "beta"):
            machine[name] = (f"catalog['{link}'].{name}", WHERE[link])
    sources = {name: machine[name][0] for name in names if name in machine}
    rest = {name: (RUN | GIVEN)[name] for name in names if name not in machine}
    source = ", ".join(f"{name}={(sources | rest)[name]}" for name in names)
    expression = Expression(f"{formula.name}({source})")
    if not sources or traced(expression) is None:
        return ""
    value = printed_like("", expression)
    if len(value) > LONGEST:
        return ""
    given = [_said(name) for name in names if name in GIVEN]
    given += ["the [book's run](your-run.md)"] if set(names) & set(RUN) else []
    places = ", ".join(dict.fromkeys(machine[name][1] for name in sources))
    where = f"For {', '.join(given)}, {places}" if given else f"{places[0].upper()}{places[1:]}"
    return f'{where}: <data value="{expression.source}">{value}</data>.'


def _said(name: str) -> str:
    """A given as a reader writes it.

    >>> _said("n"), _said("element_bytes")
    ('n = 1 GB', 'w = 2 B')
    """
    symbol = NOTATION[name]
    value = GIVEN[name].replace("*", " ")
    if value.isdecimal() and symbol.unit:
        value = f"{value} {symbol.unit}"
    return f"{plain(symbol.latex)} = {value}"
