"""Quick questions of chapter 13a, Collectives on a topology."""

from dtlib.collectives import (
    all_reduce_lower_bound_bytes,
    hierarchical_all_reduce_time,
    multi_rail_ring_all_reduce_time,
)
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import GB

# fmt: off
_LEAST = all_reduce_lower_bound_bytes(10*GB, 5) / (4 * 40*GB)
_NODES = "ABABABCDDCCD"
_LEAVE = sum(here != there for here, there in zip(_NODES, _NODES[1:] + _NODES[0], strict=True))
_TIMES = {name: time(n=40*GB, nodes=16, ranks_per_node=4, alpha_in=0, beta_in=400*GB, alpha=0,
                     beta=50*GB)
          for name, time in (("flat rings", multi_rail_ring_all_reduce_time),
                             ("hierarchical", hierarchical_all_reduce_time))}
_CROSSES = all_reduce_lower_bound_bytes(12*GB, 3)
_FOUR_NODES = all_reduce_lower_bound_bytes(1, 4)

three_large_nodes = question(
    "pause-three-large-nodes",
    "Three nodes of 16 GPUs all-reduce 12 GB, and only ranks add. How many bytes must some node "
    "send to others at least?",
    Asked("sent", _CROSSES, "bytes", {
          all_reduce_lower_bound_bytes(12*GB, 48): "what is sent within a node need not cross",
          _CROSSES / 2: "a sum must be formed, and then handed out",
          2 * 12*GB: "that would be the limit for very many nodes"}),
    "the three nodes act as three ranks, whatever goes on within them",
)

border_of_a_node = question(
    "pause-border-of-a-node",
    "Nodes of eight GPUs, 450 GB/s inside and a port of 50 GB/s for each. From how many ranks in a "
    "node would the inside take as long as the crossing, with very many nodes?",
    Asked("ranks", 1 + 450 / 50, slips={
          450 / 50: "of its node's G parts a rank passes on G - 1",
          8: "at eight, which of the two takes longer?"}),
    "a node of eight is just below: its network is the narrow wall, by a little",
)

switch_between_nodes = question(
    "pause-switch-between-nodes",
    "Four nodes, and a switch between them that adds. By which share does that which a node has to "
    "send become smaller, compared with ranks that add?",
    Asked("share", 1 - 1 / _FOUR_NODES, slips={
          1 / 2: "on four nodes the bound is not yet twice the buffer",
          1 / _FOUR_NODES: "that is the share that is left",
          _FOUR_NODES - 1: "a share of what it was, not of what it is"}),
    "one buffer instead of one and a half; with very many nodes the saving tends to a half",
)

five_nodes = question(
    "ask-five-nodes",
    "Five nodes have 4 GPUs each, and each GPU has a network port of 40 GB/s in each direction. "
    "Only ranks add; starts and all that stays inside a node are free. How long does an all-reduce "
    "of 10 GB take at least?",
    Asked("time", _LEAST, "s", {
          _LEAST * 4: "how many ports lead out of a node?",
          _LEAST / 2: "contributions must get out, and sums must get in",
          all_reduce_lower_bound_bytes(10*GB, 20) / (4 * 40*GB): "what acts as a single rank?"}),
    "a node is one rank with all its ports",
)

hops_too_many = question(
    "ask-hops-too-many",
    "A ring over twelve ranks passes the nodes A B A B A B C D D C C D in this order, and goes "
    "back to the first rank. How many fewer hops would leave their node in the best order?",
    Asked("hops", _LEAVE - 4, slips={
          _LEAVE: "the ring has to leave every node",
          4: "so many remain",
          _LEAVE - 1 - 4: "and the hop from the last rank to the first?"}),
    "in the best order each node is left once",
)

flat_or_levels = question(
    "ask-flat-or-levels",
    "16 nodes have 4 GPUs each; a GPU sends 400 GB/s inside its node and 50 GB/s through a network "
    "port of its own. Starts are free. Which all-reduce of 40 GB is faster: four flat rings, each "
    "leaving a node by another port, or the three steps of a hierarchical one, unsegmented?",
    Chosen("faster", min(_TIMES, key=_TIMES.get), {
           "hierarchical": "what do its network ports do while a node adds up?",
           "both alike": "they send about as much; when do they send it?"}),
    "the narrowest ports are busy all the time; levels are for many starts",
)
