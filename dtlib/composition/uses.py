"""What a step does with a weight, and so over which axes of a mesh its gradient must be added.

The noun is `Use`: an einsum of the weight, with the letter that each axis cuts. A gradient is a sum
over every letter that its weight has not. An axis that cuts such a letter leaves a summand on each
rank; one that cuts a letter of the weight leaves each rank its own piece, complete; one that cuts
none leaves the same everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dtlib.composition.reduction import reduction_axes
from dtlib.formulas.require import require
from dtlib.mesh import Placement, Replicate, Shard


@dataclass(frozen=True)
class Use:
    """A weight's einsum, the weight last before the arrow, and which letter each axis cuts.

    Arguments: `spec`; `cuts`, for each axis a letter of the einsum, or "" where its ranks all do
    the same. Raises ValueError for a spec without an arrow, and for a letter that is not in it.

    >>> query = Use("bsh,hnd->bsnd", {"dp": "b", "cp": "s", "tp": "n"})
    >>> query.placements
    {'dp': Replicate(), 'cp': Replicate(), 'tp': Shard(dim=1)}
    >>> query.divided, query.summed
    (('dp', 'cp', 'tp'), ('dp', 'cp'))
    """

    spec: str
    cuts: Mapping[str, str]

    def __post_init__(self):
        require("->" in self.spec, "Use", "spec", self.spec, "operands, an arrow and a result")
        for axis, letter in self.cuts.items():
            allowed = f"'' or a letter of {self.spec}"
            require(not letter or (letter.isalpha() and letter in self.spec),
                    "Use", f"the cut of {axis}", letter, allowed)  # fmt: skip

    @property
    def weight(self) -> str:
        """The letters of the weight."""
        return self.spec.partition("->")[0].split(",")[-1]

    @property
    def placements(self) -> dict[str, Placement]:
        """How the weight lies along each axis: in pieces where its own letter is cut."""
        return {
            axis: Shard(self.weight.index(letter))
            if letter and letter in self.weight
            else Replicate()
            for axis, letter in self.cuts.items()
        }

    @property
    def divided(self) -> tuple[str, ...]:
        """The axes whose ranks do different parts of the einsum."""
        return tuple(axis for axis, letter in self.cuts.items() if letter)

    @property
    def summed(self) -> tuple[str, ...]:
        """The axes over which the gradient is added: those that cut a letter it has not."""
        return reduction_axes(self.placements, self.divided)


_TOKENS = {"dp": "b", "cp": "s"}
_LAYER = {"pp": "l"} | _TOKENS
USES = {
    "queries": Use("lbsh,lhnd->lbsnd", _LAYER | {"tp": "n"}),
    "norm": Use("lbsh,lh->lbsh", _LAYER | {"tp": "s"}),
    "norm of a whole stream": Use("lbsh,lh->lbsh", _LAYER | {"tp": ""}),
    "norm of each query": Use("lbsnd,ld->lbsnd", _LAYER | {"tp": "n"}),
    "one head of keys": Use("lbnqd,lbsh,lhd->lbnqs", _LAYER | {"tp": "n"}),
    "router": Use("lbsh,lhe->lbse", _LAYER | {"tp": "s"}),
    "expert": Use("leth,lehf->letf", {"pp": "l", "dp": "t", "cp": "e", "tp": "f"}),
    "tied table": Use("ubsv,vh->ubsh", {"pp": "u"} | _TOKENS | {"tp": "v"}),
}
