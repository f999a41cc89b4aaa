// Ranks on the seats of nodes: what each port carries in a whole schedule, and how long that takes.

// The same as dtlib.collectives.nodes: `edges` are [from, to, share of n] of a whole schedule.
function seatLoads(edges, order, { nodes, perNode, nics, podNodes }) {
  const zeros = (count) => Array(count).fill(0);
  const loads = {
    GPU: { out: zeros(nodes * perNode), in: zeros(nodes * perNode) },
    NIC: { out: zeros(nodes * nics), in: zeros(nodes * nics) },
    pod: { out: zeros(nodes / podNodes), in: zeros(nodes / podNodes) },
  };
  const nodeOf = (seat) => Math.floor(seat / perNode);
  for (const [src, dst, share] of edges) {
    const ends = { out: order[src], in: order[dst] };
    const away = nodeOf(ends.out) !== nodeOf(ends.in);
    const pods = Object.values(ends).map((seat) => Math.floor(nodeOf(seat) / podNodes));
    for (const [direction, seat] of Object.entries(ends)) {
      if (!away) loads.GPU[direction][seat] += share;
      else loads.NIC[direction][nodeOf(seat) * nics + (seat % perNode) % nics] += share;
      if (pods[0] !== pods[1]) loads.pod[direction][Math.floor(nodeOf(seat) / podNodes)] += share;
    }
  }
  return loads;
}

const seatBetas = ({ nics, podNodes, taper }, { inside, nic }) => ({
  GPU: inside,
  NIC: nic,
  pod: (podNodes * nics * nic) / taper,
});

// The port that needs longest for its bytes, and how long.
function seatTime(loads, betas, n) {
  const times = Object.entries(loads).flatMap(([kind, ways]) =>
    Object.entries(ways).flatMap(([direction, list]) =>
      list.map((load, number) => ({
        kind,
        direction,
        number,
        bytes: load * n,
        seconds: (load * n) / betas[kind],
      })),
    ),
  );
  return times.reduce((worst, one) => (one.seconds > worst.seconds * (1 + 1e-9) ? one : worst));
}

// What no all-reduce undercuts: a node, or a pod, as if it were one rank.
function seatBound({ nodes, nics, podNodes }, betas, n) {
  const wall = (count, beta) => (((2 * (count - 1)) / count) * n) / beta;
  return Math.max(wall(nodes, nics * betas.NIC), wall(nodes / podNodes, betas.pod));
}

function exchanged(order, a, b) {
  return order.map((seat) => (seat === a ? b : seat === b ? a : seat));
}
