// Nodes as rows of seats with ranks on them. Two ranks change places; every network port shows what
// it has to carry, and the busiest one says how long the all-reduce takes.

const HINT =
  "Press a rank, then another one: they change places. With the keyboard: Tab to a seat, arrow " +
  "keys to another, Enter to take and to put.";
const [ROW, GAP] = [62, 24];

const countTo = (count) => Array.from({ length: count }, (_, i) => i);

function view(spec, { schedule, seats, order: chosen, nics, taper = spec.shape.taper }) {
  const order = chosen ?? spec.orders[seats];
  const shape = { ...spec.shape, nics, taper };
  const betas = seatBetas(shape, spec.betas);
  const loads = seatLoads(spec.edges[schedule], order, shape);
  const worst = seatTime(loads, betas, spec.n);
  const bound = seatBound(shape, betas, spec.n);
  const [time, least] = [worst.seconds, bound].map((seconds) => formatQuantity(seconds, "s", 3));
  const { words } = spec.controls.find(({ name }) => name === "schedule");
  return {
    names: { time: worst.seconds, bound, nics, taper },
    order,
    shape,
    betas,
    loads,
    rows: [
      ["the busiest port needs", time],
      ["no all-reduce on this machine can do with less than", least],
    ],
    said:
      `${sentence(words[schedule])}: the busiest port, ` +
      `${worst.kind} ${worst.number} ${worst.direction}, carries ` +
      `${formatQuantity(worst.bytes, "B", 3)} and needs ${time}, ` +
      `${formatQuantity(worst.seconds / bound, "×", 3)} the bound.`,
  };
}

function draw(spec, state, seen, width) {
  const { nodes, perNode, podNodes } = spec.shape;
  const size = Math.min(64, (width - (width < 480 ? 96 : 170) - 34) / perNode);
  const yOf = (node) => 24 + node * ROW + Math.floor(node / podNodes) * GAP;
  const left = 8 + perNode * size + 12;
  return {
    height: yOf(nodes - 1) + ROW + GAP,
    label: `Ranks on ${nodes} nodes of ${perNode} GPUs.`,
    marks: [
      mark.text({ x: 8, y: 14, ...soft }, "ranks on the GPUs of each node"),
      mark.text({ x: width - 4, y: 14, ...soft, ...end }, "network ports"),
      countTo(nodes).map((node) => [
        frameOf(yOf(node), perNode * size + 8),
        portsOf(spec, node, seen, { left, right: width - 4, top: yOf(node) + 7 }),
      ]),
      seatsOf(spec, state, seen, (seat) => ({
        x: 8 + (seat % perNode) * size,
        y: yOf(Math.floor(seat / perNode)) + 7,
        size,
      })),
      podsOf(spec, seen, (node) => yOf(node) + ROW, width),
    ],
  };
}

const frameOf = (y, width) =>
  mark.rect({
    x: 4, y: y + 1, width, height: ROW - 8, rx: 10,
    fill: "none", stroke: ink.line, "stroke-width": 2,
  });

// A thick edge for a rank that sends out of its node, a dashed one for the rank that was taken.
function seatsOf(spec, { schedule, held = null }, { order }, placeOf) {
  const { perNode } = spec.shape;
  const nodeOf = (seat) => Math.floor(seat / perNode);
  const away = spec.edges[schedule].filter(([src, dst]) => nodeOf(order[src]) !== nodeOf(order[dst]));
  const senders = new Set(away.map(([src]) => order[src]));
  return countTo(order.length).map((seat) => {
    const rank = order.indexOf(seat);
    const where = `node ${nodeOf(seat)}, seat ${seat % perNode}: rank ${rank}`;
    const { x, y, size } = placeOf(seat);
    const [out, taken] = [senders.has(seat), held === seat];
    const box = { x: x + 3, y, width: size - 6, height: ROW - 20, rx: 8 };
    const look = {
      fill: taken ? ink.fourth : ink.forward,
      "fill-opacity": taken ? 0.45 : 0.12,
      stroke: out ? ink.backward : ink.forward,
      "stroke-width": out ? 3 : 1.5,
      "stroke-dasharray": taken ? "5 3" : null,
    };
    const exchange = { order: exchanged(order, held, seat), held: null, seats: null };
    return mark.g(
      {
        set: held === null ? { held: seat } : exchange,
        says: where + (out ? ", sends out of the node" : ""),
        pressed: taken,
      },
      mark.rect({ ...box, ...look }),
      mark.text({ x: x + size / 2, y: y + 26, ...bold, ...middle }, rank),
    );
  });
}

// A node's ports, warmer the more they carry.
function portsOf(spec, node, { loads, shape }, { left, right, top }) {
  const most = Math.max(...loads.NIC.out, ...loads.NIC.in, 1e-12);
  const each = (ROW - 20) / shape.nics;
  return countTo(shape.nics).map((i) => {
    const number = node * shape.nics + i;
    const load = Math.max(loads.NIC.out[number], loads.NIC.in[number]);
    const y = top + i * each;
    const strip = { x: left, y, width: right - left, height: each - 1.5, rx: 3, stroke: ink.line };
    const words = { x: (left + right) / 2, y: y + each / 2 + 3.5, "font-size": 11.5, ...middle };
    return [
      mark.rect({ ...strip, fill: ink.backward, "fill-opacity": (0.7 * load) / most }),
      mark.text(words, formatQuantity(load * spec.n, "B", 3)),
    ];
  });
}

function podsOf(spec, { loads, shape, betas }, below, width) {
  const pods = loads.pod.out.length;
  if (pods < 2) return [];
  return countTo(pods).map((pod) => {
    const y = below((pod + 1) * shape.podNodes - 1);
    const bytes = Math.max(loads.pod.out[pod], loads.pod.in[pod]) * spec.n;
    const words = `out of pod ${pod}: ${formatQuantity(bytes, "B", 3)}`;
    const time = width < 480 ? "" : `, ${formatQuantity(bytes / betas.pod, "s", 3)}`;
    const line = { x1: 4, x2: width - 4, y1: y + GAP - 6, y2: y + GAP - 6, stroke: ink.soft };
    return [mark.line(line), mark.text({ x: width - 4, y: y + 11, ...soft, ...end }, words + time)];
  });
}

export default widget({
  hint: HINT,
  view,
  draw,
  changed: (spec, state, { seats }) => (seats ? { order: null, held: null } : {}),
});
