"""When eight bits are faster: a product pays for its factors' casts before it is done sooner."""

from dtlib.formulas.formula import formula

_CONDITIONS = "square factors, casts as kernels of their own, nothing overlaps"


@formula(r"T_\text{cast}", "s", "bytes over bandwidth", "the traffic is all that takes time")
def cast_time(side, cast_bytes, launch, bandwidth):
    """The time to cast a square matrix: a start, and what is read and written for each number.

    Reading two bytes and writing one are 3; a scale of the whole tensor must read it before, 5.

    >>> round(cast_time(side=4096, cast_bytes=3, launch=3e-6, bandwidth=3.35e12) * 1e6, 1)
    18.0
    """
    return launch + cast_bytes * side**2 / bandwidth


@formula(
    r"T_{8}", "s", "two casts before a product at twice the rate", _CONDITIONS,
)  # fmt: skip
def eight_bit_product_time(side, cast_bytes, launch, bandwidth, peak):
    """A product of two square matrices in eight bits, whose factors must be cast before.

    `peak` is that of sixteen bits; eight have twice of it.

    >>> H100 = dict(launch=3e-6, bandwidth=3.35e12, peak=989e12)
    >>> round(eight_bit_product_time(side=4096, cast_bytes=3, **H100) * 1e6)
    109
    """
    return 2 * cast_time(side, cast_bytes, launch, bandwidth) + launch + side**3 / peak


@formula(
    r"T_{16}",
    "s",
    "the arithmetic, and a start",
    "square factors of 16 bits, limited by arithmetic",
)
def sixteen_bit_product_time(side, launch, peak):
    """The same product in sixteen bits, which needs no cast.

    >>> round(sixteen_bit_product_time(side=4096, launch=3e-6, peak=989e12) * 1e6)
    142
    """
    return launch + 2 * side**3 / peak


@formula(
    r"n_{8}", "", "the two times set equal, the starts left out", _CONDITIONS + ", long products"
)
def eight_bit_side(cast_bytes, bandwidth, peak):
    """The side from which a product is faster in eight bits: casts grow as its square.

    >>> round(eight_bit_side(cast_bytes=3, bandwidth=3.35e12, peak=989e12))
    1771
    """
    return 2 * cast_bytes * peak / bandwidth
