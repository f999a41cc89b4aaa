"""Quick questions of chapter 3, The memory and links of a cluster."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.declarations.question import question
from dtlib.foundations import (
    GB,
    Axis,
    AxisOrder,
    Level,
    MiB,
    axis_orders,
    boundary_time,
    catalog,
    cluster_levels,
    nested_read_time,
    ring_algorithm_bandwidth,
)

# fmt: off
_NODE, _POD = Level("node", 8, 4 * 50*GB), Level("pod", 16 * 8, 16 * 4 * 50*GB / 5)
_WALLS = Level("GPU", 1, 400*GB), Level("node", 8, 8 * 50*GB)
_BEST, _WORST = axis_orders(_WALLS, (Axis("heavy", 8, 60*GB), Axis("light", 8, 10*GB)))
_NEAR, _FAR = 17e-9, 213e-9
_STEP = nested_read_time(48*MiB, [(32*MiB, _NEAR), (0, _FAR)])
_NVLINK, _PORT = catalog["nvlink4"].beta, catalog["ib-ndr400"].beta
_FOUR_INSIDE = boundary_time(traffic=1*GB, members=4, container=8, uplink=8 * _PORT)
_ALL_REDUCE = 10*GB / ring_algorithm_bandwidth(P=8, beta=_NVLINK)
_PODDED = cluster_levels(catalog["dgx-h100"], pod_nodes=8, taper=7)
_HEAVY, _LIGHT = Axis("heavy", 8, 4.3*GB), Axis("light", 8, 3.8*GB)
_RIGHT, _WRONG = (
    AxisOrder(_PODDED, (Axis("inside", 8, 0), *two)).time
    for two in ((_HEAVY, _LIGHT), (_LIGHT, _HEAVY)))
_MESH = AxisOrder(_PODDED[:1], (Axis("tp", 8, 0), Axis("dp", 2, 0), Axis("pp", 4, 0)))

walk_beyond_the_cache = question(
    "pause-walk-beyond-the-cache",
    "A cache of 32 MiB answers in 17 ns, the main memory behind it in 213 ns; neglect the nearer "
    "caches. The walk wanders through 48 MiB. How long is its mean step?",
    Asked("step", _STEP, "s", {
          _FAR: "are there no cells left in the cache?",
          (_NEAR + _FAR) / 2: "do both hold the same number of cells?",
          (16 * _NEAR + 32 * _FAR) / 48: "which of the two holds the larger share?"}),
    "the third of the cells that is outside makes most of the time",
)

four_members_inside = question(
    "pause-four-members-inside",
    "Nodes have eight GPUs and eight ports of 50 GB/s. Rings of 16 ranks have four neighbours in "
    "each node, so every node holds parts of several rings. Each rank passes on 1 GB. How long "
    "does the wall of a node take?",
    Asked("time", _FOUR_INSIDE, "s", {
          _FOUR_INSIDE / 2: "of how many rings does a node hold a part?",
          1*GB / _PORT: "does every rank of a part send out of the node?",
          2*GB / _PORT: "may the rings use more than one port?"}),
    "two rings leave the node, and share its eight ports",
)

ten_gigabytes_in_a_node = question(
    "pause-ten-gigabytes-in-a-node",
    "Eight GPUs of one node sum a buffer of 10 GB in a ring. The data sheet of their NVLink says "
    "900 GB/s, both directions together. How long does the all-reduce take at the line rate?",
    Asked("time", _ALL_REDUCE, "s", {
          _ALL_REDUCE / 2: "in how many of the two directions does a rank send the buffer?",
          10*GB / _NVLINK: "how much does a rank send for each byte of its buffer?",
          20*GB / _NVLINK: "which part of the sum does a rank not send?",
          10*GB / (2 * _NVLINK): "how much does a rank send, and in which direction?"}),
    "1.75 times the buffer, in one direction",
)

two_outer_axes = question(
    "pause-two-outer-axes",
    "Two axes of eight ranks lie outside the node. One passes on 4.3 GB, the other 3.8 GB. At the "
    "inner of their two places a rank has 50 GB/s, at the outer one 50/7 GB/s. They take turns. By "
    "how much is the worse order slower?",
    Asked("difference", _WRONG - _RIGHT, "s", {
          (_HEAVY.traffic - _LIGHT.traffic) * 7 / _PORT: "one axis loses; does the other gain?",
          (_HEAVY.traffic - _LIGHT.traffic) / _PORT: "at which place does a byte cost more?",
          _HEAVY.traffic * 6 / _PORT: "the lighter one moves, too",
          _WRONG: "that is all that the worse order takes",
          _RIGHT: "that is all that the better order takes"}),
    "the difference of the bytes times that of their prices: never negative, if sorted",
)

wall_at_seventy_two = question(
    "pause-wall-at-seventy-two",
    "From H100s in nodes of eight to B200s in racks of 72, NVLink becomes 2 times as fast and the "
    "arithmetic 2.275 times. By what is the share of time that eight tensor-parallel ranks spend "
    "on sending multiplied, compared with that of the arithmetic?",
    Asked("factor", 2.275 / 2, slips={
          2 / 2.275: "faster arithmetic makes the share larger",
          0.5: "the arithmetic has become faster, too",
          72 / 8: "eight ranks were inside the node before"}),
    "the share does not know how far away the wall is, only how fast the inside is",
)

neighbour_in_the_pipeline = question(
    "pause-neighbour-in-the-pipeline",
    "A PyTorch mesh has the shape (4, 2, 8), with the names pp, dp and tp. Which rank comes after "
    "rank 0 along pp?",
    Asked("rank", _MESH.stride("pp"), slips={
          1: "which dimension has neighbouring ranks, the first or the last?",
          8: "that is its neighbour along dp",
          4: "how many ranks does one stage of the pipeline have?",
          2: "how many ranks does one stage of the pipeline have?"}),
    "a stage has 2 x 8 ranks: on nodes of eight, its pipeline leaves the node at every hop",
)

share_of_a_pod = question(
    "ask-share-of-a-pod",
    "Nodes have eight GPUs and four ports, which send 50 GB/s each. Sixteen nodes form a pod, and "
    "out of it goes a fifth of what all its ports can send. All GPUs of a pod send out of it at "
    "once: how much can each of them send?",
    Asked("share", _POD.share, "bytes/s", {
          _NODE.share: "that is its share of what leaves the node",
          _POD.uplink: "that is what leaves the whole pod",
          _POD.share * 2: "how many GPUs share a port?"}),
    "what leaves the container, over the ranks in it",
)

two_axes_in_order = question(
    "ask-two-axes-in-order",
    "Eight nodes of eight GPUs. A GPU sends 400 GB/s inside its node, or 50 GB/s out of it by its "
    "own port. In a step each GPU passes on 60 GB along one axis of eight ranks, then 10 GB along "
    "another. One of them fills the nodes. How long do both take, in the better of the two orders?",
    Asked("time", _BEST.time, "s", {
          _WORST.time: "which of the two belongs inside?",
          _BEST.axis_time("light"): "they take turns",
          _BEST.axis_time("light") + 60*GB / _WALLS[1].share: "one of them need not leave"}),
    "what talks most stays inside, and the few bytes pay for the wall",
)

hosts_of_a_group = question(
    "ask-hosts-of-a-group",
    "A plan wants ranks 0 to 7 on one host, as a tensor group. The launcher deals 32 ranks to four "
    "hosts in turn: rank 0 to the first, rank 1 to the second, and so on, round and round. How "
    "many different host names do the eight ranks print?",
    Asked("hosts", len({rank % 4 for rank in range(8)}), slips={
          1: "so it is planned; where does rank 1 sit?",
          8: "are there so many hosts?",
          2: "that is how many of them sit on each host"}),
    "the losses would be right; only the names tell",
)
