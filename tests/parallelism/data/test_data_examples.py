"""Any model under data parallelism has, step after step, the gradients of a single process.

The functions that run on the ranks import the rest of what they need themselves.
"""

import pytest
import torch
from groups_tried import GROUPS
from hypothesis import strategies as st
from torch import nn

MICRO_BATCHES = 2


class Model(nn.Module):
    """Blocks of odd width, of which some are used twice, in one piece or recomputed.

    `buffered` is scaled by a buffer; `never` is not used, `sometimes` by odd micro-batches only.
    """

    def __init__(self, case):
        super().__init__()
        width, self.case = case["width"], case
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(case["depth"]))
        self.norm = nn.LayerNorm(width)
        self.never, self.sometimes = nn.Linear(width, 3), nn.Linear(width, width, bias=False)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, width))
        self.register_buffer("mask", torch.ones(width, dtype=torch.bool))
        drawn = torch.Generator().manual_seed(case["seed"])
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=drawn) / width**0.5)
        self.to(torch.float32 if case["autocast"] else torch.float64)
        if case["tied"]:
            self.blocks[-1].weight = self.sometimes.weight
        self.freeze(case["frozen"])

    def freeze(self, names):
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(not any(part in name for part in names))

    def forward(self, x, number):
        from torch.utils.checkpoint import checkpoint

        for i in self.case["path"]:
            block = self.blocks[i % len(self.blocks)]
            if self.case["recompute"] == "no":
                x = block(x).tanh()
            else:
                reentrant = self.case["recompute"] == "reentrant"
                x = checkpoint(lambda x, b: b(x).tanh(), x, block, use_reentrant=reentrant)
        x = self.norm(x).where(self.mask, 0)
        if number % 2:
            x = x + self.sometimes(x)
        return {"out": (x * self.scale,)}


@st.composite
def cases(draw):
    """A model, how its batch is shared, the wrapper's options, and what happens between steps."""
    members = draw(st.sampled_from(GROUPS))
    names = st.sampled_from(["blocks.0", "norm", "never", "sometimes", "weight", "bias"])
    rows = st.lists(st.integers(0, 3), min_size=2 * len(members), max_size=2 * len(members))
    recompute = draw(st.sampled_from(["no", "no", "reentrant", "not reentrant"]))
    return {
        "members": members, "width": draw(st.integers(1, 7)), "depth": draw(st.integers(1, 3)),
        "path": draw(st.lists(st.integers(0, 2), min_size=1, max_size=4)),
        "tied": recompute != "reentrant" and draw(st.booleans()), "recompute": recompute,
        "frozen": draw(st.lists(names, max_size=1)), "later": draw(st.lists(names, max_size=1)),
        "rows": draw(rows.filter(any)), "seed": draw(st.integers(0, 9)),
        "autocast": draw(st.sampled_from([False, False, True])),
        "way": draw(st.sampled_from(["no_sync", "synced_once", "one backward", "every"])),
        "fails": draw(st.booleans()), "set_to_none": draw(st.booleans()),
        "average": draw(st.booleans()), "find_unused": draw(st.booleans()),
        "options": {
            "bucket_bytes": draw(st.sampled_from([1, 200, 2**20])),
            "first_bucket_bytes": draw(st.sampled_from([1, 2**20])),
            "order": draw(st.sampled_from(["reverse", "observed"])),
            "overlap": draw(st.booleans()),
            "broadcast_buffers": draw(st.booleans()),
        },
    }  # fmt: skip


def case(**other):
    """A plain one, with what differs."""
    return {
        "members": [0, 1, 2, 3], "width": 3, "depth": 2, "path": [0, 1], "tied": False,
        "recompute": "no", "frozen": [], "later": [], "rows": [2, 1, 0, 3, 1, 1, 2, 2], "seed": 1,
        "autocast": False, "way": "no_sync", "fails": False, "set_to_none": True, "average": True,
        "find_unused": False,
        "options": {
            "bucket_bytes": 200, "first_bucket_bytes": 1, "order": "reverse", "overlap": True,
            "broadcast_buffers": True,
        },
        **other,
    }  # fmt: skip


def shares(case, step):
    """For each rank its micro-batches, which may be empty."""
    dtype = torch.float32 if case["autocast"] else torch.float64
    drawn = torch.Generator().manual_seed(100 * step + case["seed"])
    x = torch.randn(sum(case["rows"]), case["width"], generator=drawn, dtype=dtype)
    parts = x.split(case["rows"])
    return [parts[i : i + MICRO_BATCHES] for i in range(0, len(parts), MICRO_BATCHES)]


def passes(case, model, own, factor, way=None):
    """A rank's forward and backward passes, under what the wrapper has for several of them."""
    from contextlib import nullcontext

    once = model.synced_once if way == "synced_once" else nullcontext
    losses = []
    with once():
        for i, x in enumerate(own):
            quiet = way == "no_sync" and i < len(own) - 1
            with model.no_sync() if quiet else nullcontext():
                x = x.clone().requires_grad_()
                with torch.autocast("cpu", torch.bfloat16, enabled=case["autocast"]):
                    (out,) = model(x, i)["out"]
                losses.append(factor * out.sin().sum())
                if way != "one backward":
                    losses.pop().backward()
        if losses:
            sum(losses).backward()


def failing_pass(model, x, rank):
    """A backward pass that fails, on every rank in another place."""

    def fail(gradient):
        raise MemoryError

    def spoil(module, args, out):
        if out.requires_grad:
            out.register_hook(fail)

    inner = model.module
    places = [*inner.blocks, inner.norm]
    place = places[rank % len(places)]
    hook = place.register_forward_hook(spoil)
    try:
        (out,) = model(x.requires_grad_(), 1)["out"]
        out.sum().backward()
    except MemoryError:
        pass
    hook.remove()


def one_step(case, model, step, work):
    """Change what is trained, if it is time; then work, and give the gradients by name."""
    inner = getattr(model, "module", model)
    inner.freeze(case["later"] if step == 1 else case["frozen"])
    if not any(p.requires_grad for p in inner.parameters()):
        return {}
    model.zero_grad(set_to_none=case["set_to_none"])
    work()
    return {
        name: None if p.grad is None else p.grad.clone()
        for name, p in inner.named_parameters()
        if p.requires_grad
    }


def wrong_places(listed, spoil=None):
    """On a rank, for each case: gradients of three steps that are not those of one process."""
    from contextlib import nullcontext
    from unittest import mock

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    groups = {tuple(members): dist.new_group(members) for members in GROUPS}
    with mock.patch.object(DataParallel, *spoil) if spoil else nullcontext():
        return [
            compared(case, groups[tuple(case["members"])], DataParallel)
            if dist.get_rank() in case["members"]
            else []
            for case in listed
        ]


def compared(case, group, wrapper):
    import torch.distributed as dist

    P, rank = len(case["members"]), dist.get_rank(group)
    reference, replica = Model(case), Model(case)
    if not any(p.requires_grad for p in replica.parameters()):
        return []
    if rank:
        with torch.no_grad():
            for parameter in replica.parameters():
                parameter.add_(1)
    options = dict(case["options"], average=case["average"], find_unused=case["find_unused"])
    parallel, wrong = wrapper(replica, group, **options), []
    factor = P if case["average"] else 1.0  # of a rank's sum, and so of its rounding in 16 bits
    way = "synced_once" if case["way"] == "every" and not case["average"] else case["way"]
    for step in range(3):
        batch = shares(case, step)
        if step == 1 and case["fails"] and any(p.requires_grad for p in replica.parameters()):
            failing_pass(parallel, batch[rank][0].clone(), rank)

        def whole(batch=batch):
            if not case["autocast"]:
                batch = [[torch.cat(parts) for parts in zip(*batch, strict=True)]]
            for own in batch:
                passes(case, reference, own, factor, way if way == "one backward" else None)
            for parameter in reference.parameters():
                if parameter.grad is not None:
                    parameter.grad /= factor

        def mine(batch=batch):
            passes(case, parallel, batch[rank], factor, way)

        expected = one_step(case, reference, step, whole)
        found = one_step(case, parallel, step, mine)
        wrong += [(step, name) for name in expected if differ(case, found[name], expected[name])]
    return wrong


def differ(case, found, expected):
    if found is None or expected is None:
        return (0 if found is None else found.abs().max()) != (
            0 if expected is None else expected.abs().max()
        )
    tolerance = 1e-6 if case["autocast"] else 1e-12
    return not (found - expected).abs().max() <= tolerance * max(1, expected.abs().max())


def failures(ranks, listed, spoil=None):
    """The cases for which a rank has a wrong gradient, and which ones."""
    found = ranks.run(wrong_places, listed, spoil)
    by_case = zip(listed, zip(*found, strict=True), strict=True)
    return [(case, wrong) for case, wrong in by_case if any(wrong)]


def test_any_model_has_the_gradients_of_one_process(four, examples):
    assert failures(four, examples(cases(), 60)) == []


def follow_once(self):
    """Take up what is trained when the module is wrapped, and never again."""
    if not self._kinds:
        self._kinds = {p: None for p in self.module.parameters() if p.requires_grad}
        self._learning, listed = False, list(self._kinds)
        self._arrange(listed[::-1])
        for parameter in listed:
            parameter.register_post_accumulate_grad_hook(self._on_ready)


def launch_all_but_the_first(self, bucket):
    """What is in the first bucket stays as this rank has it."""
    from unittest import mock

    import torch.distributed as dist

    last = bucket is self.buckets[0]
    bucket.work = (
        mock.Mock() if last else dist.all_reduce(bucket.flat, group=self.group, async_op=True)
    )


def send_undivided(self, bucket):
    """The next bucket, with gradients as they are."""
    bucket.collect(1.0)
    self.launch(bucket)


OUTSIDE = ["norm", "sometimes", "never"]
REENTRANT = case(recompute="reentrant", path=[0, 1, 0], frozen=OUTSIDE, later=OUTSIDE)
SPOILT = {
    "a bucket that is not sent": (case(), ("launch", launch_all_but_the_first)),
    "no division": (case(), ("_send", send_undivided)),
    "unfrozen later": (case(frozen=["norm"]), ("_follow", follow_once)),
    "a pass that ends with each piece": (
        {**REENTRANT, "average": False},
        ("_on_output", lambda self, gradient: None),
    ),
}


@pytest.mark.parametrize("spoilt", SPOILT.values(), ids=SPOILT)
def test_sabotage_each_of_them_is_noticed(four, spoilt):
    example, spoil = spoilt
    assert failures(four, [example]) == []
    assert failures(four, [example], spoil) != []
