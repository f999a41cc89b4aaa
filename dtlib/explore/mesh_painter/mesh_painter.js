// A cluster as a grid, painted with the groups of one axis of its mesh; edges that leave a node glow.

const HINT =
  "Colour and letter say the group along the axis that is shown. Press a GPU to see its group " +
  "alone; with the keyboard: Tab to the grid, arrow keys, Enter.";
const [TOP, GAP, LABEL] = [26, 16, 58];

const namesIn = (order) => order.split(" ");

function view(spec, { order, axis: shown, node, at }) {
  const axes = namesIn(order).map((name) => spec.axes.find((axis) => axis.name === name));
  const seen = spec.axes.map((axis) => axisSeen(axes, axis, node));
  const total = seen.reduce((sum, { bytes }) => sum + bytes, 0);
  const least = Math.min(
    ...spec.orders.map((one) =>
      awayInAll(namesIn(one).map((name) => spec.axes.find((axis) => axis.name === name)), node),
    ),
  );
  const painted = seen.find(({ name }) => name === shown);
  const heaviest = seen.reduce((most, one) => (one.traffic > most.traffic ? one : most));
  const quantity = (bytes) => formatQuantity(bytes, "B", 3);
  const held = painted.groups.find((group) => group.includes(at));
  return {
    names: { away: total, least, heaviest_away: heaviest.bytes, crossing: painted.away },
    painted,
    held,
    rows: [
      ...seen.map(({ name, size, groups, edges, away, bytes }) => [
        `${name}: ${groups.length} groups of ${size}`,
        `${away} of ${edges.length} edges leave a node, ${quantity(bytes)}`,
        away / edges.length,
      ]),
      ["all axes, out of nodes in one step", quantity(total)],
    ],
    said:
      `From the outermost axis: ${namesIn(order).join(", ")}. Along ${shown} there are ` +
      `${painted.groups.length} groups of ${painted.size}; ${painted.away} of ` +
      `${painted.edges.length} edges leave a node of ${node} GPUs. ` +
      `All axes together send ${quantity(total)} out of nodes in one step.`,
  };
}

function draw(spec, { node, at }, { painted, held }, width) {
  const ranks = painted.edges.length;
  const left = width < 480 ? 6 : LABEL;
  const cell = Math.min(80, (width - left - 6) / node);
  const high = Math.min(cell, 44);
  const rowOf = (rank) => Math.floor(rank / node);
  const box = (rank) => ({
    x: left + (rank % node) * cell + 3,
    y: TOP + rowOf(rank) * (high + GAP) + 3,
    width: cell - 6,
    height: high - 6,
  });
  const nodes = Array.from({ length: ranks / node }, (_, i) => i);
  return {
    height: TOP + nodes.length * (high + GAP),
    label: `${ranks} GPUs in nodes of ${node}, in groups along ${painted.name}.`,
    marks: [
      mark.text({ x: 6, y: 14, ...soft }, `each box a node of ${node} GPUs; groups along ${painted.name}`),
      nodes.map((i) => nodeBox(i, { left, y: TOP + i * (high + GAP), width: node * cell, high }, width)),
      painted.groups.flatMap((group) =>
        ringOf(group).map((edge) => arc(edge, node, box, group === held)),
      ),
      Array.from({ length: ranks }, (_, rank) => gpu(rank, painted, box(rank), { held, node, at })),
    ],
  };
}

const nodeBox = (i, { left, y, width, high }, page) => [
  mark.rect({ x: left, y, width, height: high, rx: 8, fill: "none", stroke: ink.line, "stroke-width": 2 }),
  page < 480 ? null : mark.text({ x: 6, y: y + high / 2 + 4, ...soft }, `node ${i}`),
];

const middleOf = ({ x, y, width, height }) => [x + width / 2, y + height / 2];

// Bent to one side, so that the way there and the way back are two lines; within a row, around what lies
// between.
function arc(edge, node, box, held) {
  const [[x1, y1], [x2, y2]] = edge.map((rank) => middleOf(box(rank)));
  const [dx, dy, { width, height }] = [x2 - x1, y2 - y1, box(0)];
  const around = dy === 0 && Math.abs(dx) > 1.5 * width;
  const bend = around ? (height + GAP) / Math.abs(dx) : 0.12 + 10 / Math.hypot(dx, dy);
  const way = `M ${x1} ${y1} Q ${(x1 + x2) / 2 - dy * bend} ${(y1 + y2) / 2 + dx * bend} ${x2} ${y2}`;
  const out = leaves(edge, node);
  const look = out ? { stroke: ink.backward, "stroke-dasharray": "6 3" } : { stroke: ink.soft };
  return mark.path({
    d: way, fill: "none", ...look,
    "stroke-width": held ? 3 : 1.2, "stroke-opacity": held ? 1 : 0.45,
  });
}

function gpu(rank, { groups, name }, box, { held, node, at }) {
  const number = groups.findIndex((group) => group.includes(rank));
  const letter = String.fromCharCode(97 + number);
  const inside = groups[number] === held;
  const words = `GPU ${rank} of node ${Math.floor(rank / node)}: group ${letter} along ${name}`;
  const [x, y] = middleOf(box);
  const look = {
    fill: inkOf(number), "fill-opacity": inside ? 0.5 : 0.18,
    stroke: inkOf(number), "stroke-width": inside ? 3 : 1.2,
  };
  return mark.g(
    { set: { at: rank }, says: words, pressed: rank === at },
    mark.rect({ ...box, rx: 6, fill: ink.paper }),
    mark.rect({ ...box, rx: 6, ...look }),
    mark.text({ x, y: y - 1, "font-size": 12.5, ...bold, ...middle }, rank),
    mark.text({ x, y: y + 13, "font-size": 12, ...middle }, letter),
  );
}

export default widget({ hint: HINT, view, draw });
