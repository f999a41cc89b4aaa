"""Gossip: each rank averages with its neighbours only, and nobody ever adds up everything.

One round multiplies the ranks' weights by a doubly stochastic matrix. How fast they agree is its
second eigenvalue.
"""

import numpy as np
import torch
import torch.distributed as dist

from dtlib.formulas.require import require, require_count
from dtlib.runtime.process_group import ranks_of


def ring_mixing(P: int) -> np.ndarray:
    """Each of P ranks takes a third of itself and of each of its two neighbours on a ring.

    Of two ranks each is both neighbours of the other. Raises ValueError below one rank.

    >>> ring_mixing(4)[0].round(3).tolist()
    [0.333, 0.333, 0.0, 0.333]
    """
    require_count("ring_mixing", P=P)
    mixing = np.eye(P)
    return (mixing + np.roll(mixing, 1, axis=0) + np.roll(mixing, -1, axis=0)) / 3


def exponential_mixing(P: int, step: int) -> np.ndarray:
    """In this step each rank averages with the one that is 1, 2, 4 ... places away, in turn.

    P must be a power of two; after log2 P steps all ranks have the mean. Raises ValueError else.

    >>> product = exponential_mixing(4, 1) @ exponential_mixing(4, 0)
    >>> bool((product == 1 / 4).all())
    True
    """
    require_count("exponential_mixing", P=P)
    require(P & (P - 1) == 0, "exponential_mixing", "P", P, "a power of two")
    away = 2 ** (step % max(1, P.bit_length() - 1))
    return (np.eye(P) + np.roll(np.eye(P), away, axis=1)) / 2


def check_doubly_stochastic(mixing: np.ndarray, tolerance: float = 1e-12) -> None:
    """Raise ValueError, with the row or column, unless weights are not negative and add up to 1.

    Rows that add up to 1 keep ranks that agree in agreement. Columns that do keep the mean.
    """
    require(bool((mixing >= 0).all()), "mixing", "its least weight", mixing.min(), "0 or more")
    for name, sums in (("row", mixing.sum(1)), ("column", mixing.sum(0))):
        worst = int(np.abs(sums - 1).argmax())
        if abs(sums[worst] - 1) > tolerance:
            raise ValueError(f"mixing: {name} {worst} adds up to {sums[worst]:.6g}, and must to 1")


def spectral_gap(mixing: np.ndarray) -> float:
    r"""One less the second largest modulus of the eigenvalues.

    Each round of a symmetric mixing shrinks the distance to agreement to at most 1 - gap of itself.
    Raises ValueError unless the matrix is doubly stochastic.

    >>> round(spectral_gap(ring_mixing(4)), 6), round(spectral_gap(ring_mixing(64)), 6)
    (0.666667, 0.00321)
    """
    check_doubly_stochastic(mixing)
    moduli = sorted(abs(np.linalg.eigvals(mixing)), reverse=True)
    return 1.0 - float(moduli[1]) if len(moduli) > 1 else 1.0


def gossip(own: torch.Tensor, mixing: np.ndarray, group) -> torch.Tensor:
    """One round on ranks: a rank takes the mean that its row of W weighs; only neighbours send.

    Arguments: `own`, this rank's tensor; `mixing`, W, the same on all ranks; `group`. All call it.
    Raises ValueError unless W is doubly stochastic and as large as the group. Source: Lian 2017.
    """
    rank, P = ranks_of(group)
    require(mixing.shape == (P, P), "gossip", "mixing.shape", mixing.shape, f"({P}, {P})")
    check_doubly_stochastic(mixing)
    sources = [j for j in range(P) if j != rank and mixing[rank, j]]
    targets = [j for j in range(P) if j != rank and mixing[j, rank]]
    inbox = {j: torch.empty_like(own) for j in sources}
    work = [dist.isend(own, group_dst=j, group=group) for j in targets]
    work += [dist.irecv(inbox[j], group_src=j, group=group) for j in sources]
    for each in work:
        each.wait()
    total = float(mixing[rank, rank]) * own
    for j in sources:
        total = total + float(mixing[rank, j]) * inbox[j]
    return total
