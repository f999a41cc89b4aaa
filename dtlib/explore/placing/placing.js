// Ranks on a logarithmic ruler. Axes are blocks that the reader puts in order, the containers' walls
// can be dragged, and every block shows how long its traffic needs through the wall that binds it.

const HINT =
  "Drag a block to another place, or a wall by its knob. " +
  "With the keyboard: Tab to a block or a knob, then the arrow keys.";
const [SHORTEST, LONGEST] = [1e-3, 100]; // seconds on the axis of time
const [TOP, RULER, BARS] = [58, 152, 214]; // px from above
const [BLOCK, ROW] = [60, 30]; // px high
const KNOBS = { pod: 38, node: 138 };
const WIDE = 480;

const quantity = (value, unit) => formatQuantity(value, unit, 3);

const orderOf = ({ axes }, state) =>
  axes.map((_, i) => i).sort((a, b) => state[axes[a].place] - state[axes[b].place]);

function view(spec, state) {
  const given = ["traffic", "members", "container", "uplink"].map((name) => ({ name }));
  const time = valuesAt({ fixed: [], controls: given }, {})(spec.time);
  const levels = levelsOf(state, spec.links);
  const scene = (order) => placed(spec.axes, order, levels, time);
  const places = scene(orderOf(spec, state));
  const total = totalOf(places);
  const others = ordersOf(spec.axes.length).map((order) => totalOf(scene(order)));
  const faster = others.filter((other) => other < total * (1 - 1e-9)).length;
  const verb = faster === 1 ? "order is" : "orders are";
  const rank = faster ? `${faster} other ${verb} faster` : "no order is faster";
  const sum = ["together", `${quantity(total, "s")}; ${rank}`];
  const each = places.map(({ name, seconds }) => `${name} ${quantity(seconds, "s")}`);
  return {
    names: { total, faster },
    places,
    levels,
    rows: [...places.map((place) => rowOf(place, levels)), sum],
    said:
      `From the inside: ${places.map(({ name }) => name).join(", ")}. Communication in a step: ` +
      `${quantity(total, "s")} (${each.join(", ")}); ${rank}.`,
  };
}

// Which wall binds an axis, and how many of its ranks are on this side of it.
function rowOf({ name, size, members, binding, seconds, traffic }, levels) {
  if (binding === null) return [name, "one rank, nothing to send"];
  const wall = levels[binding].name;
  const inside = `${members[binding]} of ${size} ranks inside`;
  return [`${name}: bound by the ${wall}'s wall, ${inside}`, quantity(traffic / seconds, "B/s")];
}

const endsOf = (width) => ({ left: 12, right: width - 12 });
const ranksOf = ({ axes }) => axes.reduce((product, { size }) => product * size, 1);

function rulerOf(spec, width) {
  const { left, right } = endsOf(width);
  return scaleOf(1, ranksOf(spec), "log", left, right);
}

function draw(spec, state, { places, levels }, width) {
  const across = rulerOf(spec, width);
  const [gpu, node, pod] = levels;
  const own = `bandwidth per GPU, out of a ${gpu.name}: ${quantity(gpu.uplink, "B/s")}`;
  return {
    height: BARS + ROW * places.length + 46,
    label: `${places.map(({ name }) => name).join(", ")} on a ruler of ${ranksOf(spec)} GPUs.`,
    marks: [
      mark.text({ x: endsOf(width).left, y: 14 }, own),
      places.map((place) => block(place, [node, pod], across)),
      ruler(spec, across, width),
      wall(node, KNOBS.node, across, width),
      wall(pod, KNOBS.pod, across, width),
      bars(places, width),
    ],
  };
}

// Its words stand in the widest part that no wall divides.
function block({ name, place, size, traffic, stride, end: after, index, seconds }, walls, across) {
  const inside = walls.map(({ ranks }) => ranks).filter((ranks) => stride < ranks && ranks < after);
  const ends = [stride, ...inside, after].map(across);
  const widths = ends.slice(1).map((end, i) => end - ends[i]);
  const widest = Math.max(...widths);
  const x = ends[widths.indexOf(widest)] + widest / 2;
  const bytes = quantity(traffic, "B");
  const title = `${name} ${size}`;
  const lines = 9 * title.length < widest ? [title, bytes] : [name, size, bytes];
  const gap = lines.length > 2 ? 17 : 20;
  const top = TOP + BLOCK / 2 + 5 - (gap * (lines.length - 1)) / 2;
  const look = { fill: inkOf(index), "fill-opacity": 0.34, stroke: inkOf(index), "stroke-width": 2 };
  const box = { x: ends[0] + 2, y: TOP, width: ends[ends.length - 1] - ends[0] - 4, height: BLOCK };
  return mark.g(
    { grip: place, says: `${quantity(seconds, "s")} in a step`, class: "dt-grab" },
    mark.rect({ class: "dt-handle", ...box, rx: 8, ...look }),
    lines.map((words, i) =>
      mark.text({ x, y: top + gap * i, ...middle, ...(words === bytes ? {} : bold) }, words),
    ),
  );
}

function ruler(spec, across, width) {
  const [ranks, { right }] = [ranksOf(spec), endsOf(width)];
  const doublings = Array.from({ length: Math.log2(ranks) + 1 }, (_, k) => k);
  const every = width < WIDE ? 3 : 1;
  return [
    doublings.map((k) => {
      const x = across(2 ** k);
      const anchor = k === 0 ? "start" : 2 ** k === ranks ? "end" : "middle";
      const words = { x, y: RULER + 18, ...soft, "text-anchor": anchor };
      return [
        mark.line({ x1: x, x2: x, y1: RULER, y2: RULER + 5, stroke: ink.soft }),
        k % every ? null : mark.text(words, String(2 ** k)),
      ];
    }),
    mark.text({ x: right, y: RULER + 36, ...soft, ...end }, "GPUs, counted from the inside →"),
  ];
}

// A wall with its knob above the blocks or below them, and beside it what passes for each GPU inside.
function wall({ name, ranks, uplink }, knob, across, width) {
  const { left, right } = endsOf(width);
  const x = across(ranks);
  const ends = knob < TOP ? [knob, TOP + BLOCK + 6] : [TOP - 6, knob];
  const which = `${width < WIDE ? "" : "out of a "}${name} of ${ranks}`;
  const words = `${which}: ${quantity(uplink / ranks, "B/s")}`;
  const reach = 14 + 6.8 * words.length;
  const toRight = x + reach < right || x - reach < left;
  const at = toRight ? { x: x + 14 } : { x: x - 14, ...end };
  return mark.g(
    { grip: name },
    mark.line({ x1: x, x2: x, y1: ends[0], y2: ends[1], stroke: ink.text, "stroke-width": 3 }),
    mark.text({ y: knob + 4, ...at, ...halo }, words),
    grip(x, knob),
  );
}

function bars(places, width) {
  const { left, right } = endsOf(width);
  const across = scaleOf(SHORTEST, LONGEST, "log", left, right);
  const bottom = BARS + ROW * places.length;
  const below = { y: bottom + 16, ...soft };
  const anchor = (v) => (v === SHORTEST ? "start" : v === LONGEST ? "end" : "middle");
  return [
    ticks(SHORTEST, LONGEST, "log", 6).map((v) => [
      mark.line({ x1: across(v), x2: across(v), y1: BARS - 6, y2: bottom, stroke: ink.line }),
      mark.text({ ...below, x: across(v), "text-anchor": anchor(v) }, quantity(v, "s")),
    ]),
    places.map(({ name, index, seconds }, i) => {
      const [y, long] = [BARS + ROW * i, across(clamp(seconds, SHORTEST, LONGEST)) - left];
      const words = `${name} ${quantity(seconds, "s")}`;
      const outside = left + long + 8 + 7.4 * words.length < right;
      const at = outside ? { x: left + long + 8, ...halo } : { x: left + 8 };
      const bar = { x: left, y, width: Math.max(long, 2), height: 22, rx: 3 };
      return [
        mark.rect({ ...bar, fill: inkOf(index), "fill-opacity": 0.45 }),
        mark.text({ ...at, y: y + 16, ...bold }, words),
      ];
    }),
    mark.text({ x: right, y: bottom + 35, ...soft, ...end }, "communication in a step →"),
  ];
}

// What a pointer took hold of: a knob above or below the blocks, or one of them.
function taken(state, places, across, { x, y }) {
  const name = y < TOP ? "pod" : y > TOP + BLOCK ? "node" : null;
  if (name) return Math.hypot(x - across(state[name]), y - KNOBS[name]) < 24 ? name : null;
  const on = ({ stride, end: after }) => x >= across(stride) && x <= across(after);
  return places.find(on)?.place ?? null;
}

function drag(spec, state, { places }, width, { x, y, from, last }) {
  const across = rulerOf(spec, width);
  const held = last === from ? taken(state, places, across, { x, y }) : state.held;
  if (held === null) return { held };
  const { values } = spec.controls.find(({ name }) => name === held);
  const at = places.findIndex(({ place }) => place === held);
  const to = at < 0 ? nearest(values, across.invert(x), "log") : placeAt(places, at, x, across);
  return { held, [held]: values[to] };
}

// A block moves one place when the pointer has passed the middle of its neighbour.
function placeAt(places, at, x, across) {
  const center = ({ stride, end: after }) => (across(stride) + across(after)) / 2;
  const [before, next] = [places[at - 1], places[at + 1]];
  return before && x < center(before) ? at - 1 : next && x > center(next) ? at + 1 : at;
}

// A block that is moved pushes others on, a wall the walls beside it.
function changed(spec, state, change, before) {
  const movers = spec.axes.filter(({ place }) => place in change);
  const order = movers.reduce(
    (now, axis) => moved(now, now.indexOf(spec.axes.indexOf(axis)), change[axis.place] - 1),
    orderOf(spec, before),
  );
  const places = order.map((index, i) => [spec.axes[index].place, i + 1]);
  return { ...Object.fromEntries(places), ...walled(state, change) };
}

export default widget({ hint: HINT, view, draw, drag, changed });
