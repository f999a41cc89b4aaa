// Axes in an order, innermost first, on containers of ranks: who crosses what, and how long it takes.

// The same as dtlib.machines.axis_order: containers of `ranks` consecutive ranks, with `uplink`
// bytes/s out of each. All sizes are powers of two, so that every order fits.
function levelsOf({ node, pod, sharing, taper }, { link, port }) {
  const outOfNode = (node / sharing) * port;
  return [
    { name: "GPU", ranks: 1, uplink: link },
    { name: "node", ranks: node, uplink: outOfNode },
    { name: "pod", ranks: pod, uplink: ((pod / node) * outOfNode) / taper },
  ];
}

function placed(axes, order, levels, boundaryTime) {
  let stride = 1;
  return order.map((index) => {
    const axis = axes[index];
    const place = { ...axis, index, stride, end: stride * axis.size, seconds: 0, binding: null };
    place.members = levels.map(({ ranks }) => Math.min(Math.max(ranks / stride, 1), axis.size));
    levels.forEach(({ ranks: container, uplink }, i) => {
      if (place.members[i] >= axis.size) return;
      const { traffic, members } = place;
      const seconds = boundaryTime({ traffic, members: members[i], container, uplink });
      if (seconds <= place.seconds * (1 + 1e-9)) return;
      place.seconds = seconds;
      place.binding = i;
    });
    stride = place.end;
    return place;
  });
}

const totalOf = (places) => places.reduce((sum, { seconds }) => sum + seconds, 0);

function ordersOf(count) {
  if (count === 1) return [[0]];
  return ordersOf(count - 1).flatMap((rest) =>
    Array.from({ length: count }, (_, i) => [...rest.slice(0, i), count - 1, ...rest.slice(i)]),
  );
}

// The order with one axis moved to another place.
function moved(order, from, to) {
  const rest = order.filter((_, i) => i !== from);
  return [...rest.slice(0, to), order[from], ...rest.slice(to)];
}

// Walls inside one another: what the reader has moved stays, the others make room. A node is no
// smaller than the GPUs that share a port.
function walled({ node, pod, sharing }, change) {
  const least = "sharing" in change ? Math.max(node, sharing) : node;
  const inside = "pod" in change ? Math.min(least, pod / 2) : least;
  return { node: inside, pod: Math.max(pod, 2 * inside), sharing: Math.min(sharing, inside) };
}
