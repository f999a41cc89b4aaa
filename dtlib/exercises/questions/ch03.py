"""Quick questions of chapter 3, The memory and links of a cluster."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question
from dtlib.foundations import GB, Axis, Level, axis_orders

# fmt: off
_NODE, _POD = Level("node", 8, 4 * 50*GB), Level("pod", 16 * 8, 16 * 4 * 50*GB / 5)
_WALLS = Level("GPU", 1, 400*GB), Level("node", 8, 8 * 50*GB)
_BEST, _WORST = axis_orders(_WALLS, (Axis("heavy", 8, 60*GB), Axis("light", 8, 10*GB)))

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
