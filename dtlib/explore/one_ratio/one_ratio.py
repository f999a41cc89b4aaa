"""OneRatio: five strategies, five lengths, and one slider that moves all of their borders."""

from collections.abc import Iterable, Mapping, Sequence

from dtlib.explore.controls import Task, between
from dtlib.explore.kit.controls import choice, slider
from dtlib.explore.kit.widget import Widget
from dtlib.formulas.units import format_quantity
from dtlib.foundations.roofline.one_ratio import HIDING, link_bandwidths, link_ratios
from dtlib.models.published import published_models
from dtlib.models.spec import TransformerSpec

DEGREE = 8  # ranks of a tensor-parallel group, stages of a pipeline, ranks that share a sequence
MODELS = ("gpt-3", "llama-3.1-405b", "mixtral-8x7b", "mixtral-8x22b", "deepseek-v3")
LINKS = {
    "nvlink4": "NVLink",
    "pcie5-x16": "PCIe 5",
    "ib-ndr400": "network, a port",
    "scattered": "bad case: ranks scattered, a port",
}
ENDS = 100, 1_000_000
MOST_MODELS = 6
_TRACKS = {
    "data": ("data, behind the backward pass", "tokens of a replica in one step"),
    "tensor": ("tensor", f"width of the model, on {DEGREE} ranks"),
    "pipeline": ("pipeline", f"width × layers of one of {DEGREE} stages"),
    "context": ("context, causal", f"a rank's tokens of one sequence, on {DEGREE} ranks"),
    "expert": ("expert", "inner width of an expert"),
}
TASK = Task(
    "Find a published model with which all five hide on the network, at 10,000 FLOP/B or more.",
    "hidden >= 5 and rho >= 10000 and published > 0",
    {"rho": 10000, "model": 3},
    "Here tensor parallelism is the first to show, on the four ports of its eight ranks.",
)


class OneRatio(Widget):
    """Where the communication of each strategy hides behind the arithmetic, and where it does not.

    One slider: rho, the FLOP that a device could do while its link or port sends one byte, and a
    choice of four ways out of a GPU, per direction, each of which brings its ratio. On the network
    a strategy has the ports of its ring (`dtlib.foundations.roofline.one_ratio.HIDING`): data
    parallelism over whole nodes eight; in the bad case, with ranks scattered over the nodes, each
    has one. Each of five tracks
    has a border at a multiple of rho and a mark at a model's own length, which the reader drags.
    Right of its border a strategy is hidden, left of it exposed. Arguments: `title`; `models`,
    names of published models, at most six, the first of which is shown; `link`, one of ``LINKS``,
    where the slider starts; `gpu`, of the catalog, in bf16; `task` over ``rho``, ``hidden`` (how
    many of the five hide) and ``published`` (1 for the lengths of a published model, 0 for the
    reader's own), with a solution ``{"rho": ..., "model": index}``. A model is taken with one
    sequence of its longest context for each replica. Raises ValueError for an unknown model or
    link, and for a task as others do.

    >>> from dtlib.explore import OneRatio
    >>> figure = OneRatio("What hides behind the arithmetic?", models=("mixtral-8x7b", "gpt-3"))
    >>> [name for name, share in figure.shares().items() if share > 1]  # exposed on one port
    ['tensor', 'context']
    """

    def __init__(
        self,
        title: str = "One ratio decides for all five",
        *,
        models: Sequence[str] = ("mixtral-8x7b", *(m for m in MODELS if m != "mixtral-8x7b")),
        link: str = "ib-ndr400",
        gpu: str = "h100-sxm",
        task: Task | None = None,
    ):
        if not 1 <= len(models) <= MOST_MODELS:
            raise ValueError(f"models: from 1 to {MOST_MODELS}; got {len(models)}")
        if link not in LINKS:
            raise ValueError(f"link = {link!r}; there are {', '.join(LINKS)}")
        self._specs = [published_models[name] for name in models]
        ratios, betas = link_ratios(gpu), link_bandwidths(gpu)
        lanes = {name: "ib-ndr400" if name == "scattered" else name for name in LINKS}
        self._ratios = {name: round(ratios[lane]) for name, lane in lanes.items()}
        self._link, self._rho = link, self._ratios[link]
        rates = [format_quantity(betas[lane], "B/s", 3) for lane in lanes.values()]
        ways = [f"{words}, {rate}" for words, rate in zip(LINKS.values(), rates, strict=True)]
        super().__init__(
            title=title,
            task=task,
            controls=[
                choice("link", f"Link of {gpu}, per direction", dict(enumerate(ways)),
                       list(LINKS).index(link)),
                choice("model", "Model", dict(enumerate(spec.name for spec in self._specs)), 0),
                slider("rho", "FLOP while one byte is sent",
                       _over(300, 40_000, self._ratios.values()), self._rho, "FLOP/B"),
                *(slider(key, f"{key} (0: the model's)", (0, *_over(*ENDS)), 0) for key in _TRACKS),
            ],
            ends=list(ENDS),
            ratios=list(self._ratios.values()),
            ports=[list(ports_of(name).values()) for name in LINKS],
            tracks=[{"key": key, "words": words} for key, (_, words) in _TRACKS.items()],
            models=[
                {
                    "label": spec.name,
                    "lengths": list(lengths_of(spec).values()),
                    "factors": list(factors_of(spec).values()),
                }
                for spec in self._specs
            ],
        )  # fmt: skip

    def borders(
        self, rho: float | None = None, model: int = 0, link: str | None = None
    ) -> dict[str, float]:
        """The least length that hides, for each strategy."""
        rho = self._rho if rho is None else rho
        ports = ports_of(self._link if link is None else link)
        factors = factors_of(self._specs[model])
        return {key: factor * rho / ports[key] for key, factor in factors.items()}

    def shares(
        self, rho: float | None = None, model: int = 0, link: str | None = None, **own: float
    ) -> dict[str, float]:
        """Communication over arithmetic for each strategy that the model has; hidden up to 1.

        `own` gives lengths instead of the model's, by strategy; 0 leaves the model's.
        """
        lengths = lengths_of(self._specs[model]) | {key: n for key, n in own.items() if n}
        borders = self.borders(rho, model, link)
        return {key: borders[key] / length for key, length in lengths.items() if length}

    def names(self, *, rho: float, link: int, model: int, **own: float) -> dict[str, int]:
        shares = self.shares(rho, model, list(LINKS)[link], **own)
        hidden = sum(share <= 1 for share in shares.values())
        return {"hidden": hidden, "published": int(not any(own.values()))}


def lengths_of(model: TransformerSpec) -> dict[str, float | None]:
    """The five lengths of a model: one sequence of its context a replica, everything else by 8.

    >>> lengths_of(published_models["mixtral-8x7b"])
    {'data': 32768, 'tensor': 4096, 'pipeline': 16384, 'context': 4096, 'expert': 14336}
    """
    return {
        "data": model.context,
        "tensor": model.hidden,
        "pipeline": model.hidden * model.layers / DEGREE
        if model.layers % DEGREE
        else model.hidden * model.layers // DEGREE,
        "context": model.context // DEGREE,
        "expert": model.moe.ffn if model.moe else None,
    }


def factors_of(model: TransformerSpec) -> Mapping[str, float]:
    """The multiples of rho at which a model's borders lie; its key heads enter that of context."""
    heads = {"kv_heads": model.kv_heads, "heads": model.heads}
    return {key: HIDING[line].factor(**heads, tp=DEGREE) for key, (line, _) in _TRACKS.items()}


def ports_of(link: str) -> dict[str, int]:
    """How many links or ports carry a strategy's ring: more than one on the network alone.

    >>> ports_of("ib-ndr400")
    {'data': 8, 'tensor': 4, 'pipeline': 1, 'context': 1, 'expert': 1}
    """
    network = link == "ib-ndr400"
    return {key: HIDING[line].members if network else 1 for key, (line, _) in _TRACKS.items()}


def _over(low: int, high: int, more: Iterable[float] = ()) -> tuple[float, ...]:
    return tuple(sorted({*between(low, high, start=low).values, *more}))
