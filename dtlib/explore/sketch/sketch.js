// The reader draws a curve through a few points; then the formula's own curve appears.

const HINT =
  "Drag a point to mend it. " +
  "With the keyboard: Tab to a column, then the arrow keys, Page Up and Page Down.";
const WIDE = 560;
const LABEL = 62; // px for a value beside its point
const HIT = 1.3; // a curve that is nowhere further off

// What the reader sees: "empty" axes, a "drawn" curve or a part of it, and what "happens".
function stageOf({ points }, state) {
  if (state.stage) return state.stage;
  return points.some(({ name }) => state[name] !== null) ? "drawn" : "empty";
}

const drawnOf = ({ points }, state) =>
  points
    .map((point) => ({ ...point, mine: state[point.name] }))
    .filter(({ mine }) => mine !== null);

const emptied = ({ points }) => Object.fromEntries(points.map(({ name }) => [name, null]));

function view(spec, state) {
  const stage = stageOf(spec, state);
  const mine = drawnOf(spec, state);
  return {
    names: { drawn: mine.length },
    stage,
    mine,
    actions: actionsAt(spec, stage),
    said: stage === "happens" ? happened(spec, mine) : drawnInWords(spec, mine),
  };
}

// What nobody has drawn is nobody's bet.
function actionsAt(spec, stage) {
  if (stage === "happens") return [["Draw again", { stage: null, ...emptied(spec) }]];
  const whyNot = stage === "empty" ? "Draw first, or skip." : null;
  return [
    ["Show what happens", { stage: "happens", fresh: true }, whyNot],
    ...(whyNot ? [["Skip", { stage: "happens", fresh: true }]] : []),
  ];
}

const text = ({ y }, value) => formatQuantity(value, y.unit);

function drawnInWords(spec, mine) {
  const { x, given } = spec;
  const start = `${text(spec, given)} at ${x.label} = ${formatQuantity(startOfX(spec), x.unit)}`;
  if (!mine.length) return `Only the dot is given: ${start}.`;
  return `You draw ${mine.map((one) => `${text(spec, one.mine)} on ${one.where}`).join(", ")}.`;
}

// The point that was missed most decides the sentence.
function happened(spec, mine) {
  if (!mine.length) {
    const every = spec.points.map(({ where, truth }) => `${text(spec, truth)} on ${where}`);
    return `It is ${every.join(", ")}. ${spec.conclusion}`.trim();
  }
  const off = ({ mine: drawn, truth }) => Math.abs(Math.log(truth / drawn));
  const worst = mine.reduce((most, one) => (off(one) > off(most) ? one : most));
  const ratio = Math.exp(off(worst));
  const way = worst.truth > worst.mine ? "as much" : "less";
  const far = ratio < HIT ? "You had it" : `That is ${formatQuantity(ratio, "", 2)} times ${way}`;
  const drawn = `On ${worst.where} you drew ${text(spec, worst.mine)}`;
  return `${drawn}; it is ${text(spec, worst.truth)}. ${far}. ${spec.conclusion}`.trim();
}

function plotOf({ x, y }, width) {
  const bottom = 44 + clamp(width * 0.4, 220, 290);
  const box = { left: 76, right: width - (width < WIDE ? 20 : 28), top: 44, bottom };
  const across = scaleOf(x.values[0], x.values[x.values.length - 1], "log", box.left, box.right);
  return { box, across, up: scaleOf(...y.range, "log", box.bottom, box.top) };
}

function draw(spec, state, { stage, mine }, width) {
  const plot = plotOf(spec, width);
  const { box } = plot;
  const happens = stage === "happens";
  return {
    height: box.bottom + 50,
    label: `${spec.y.label} against ${spec.x.label}, as you draw it.`,
    marks: [
      axes(spec, plot, width),
      happens ? revealed(spec, mine, state.fresh, plot) : null,
      mine.length ? mark.path({ class: "dt-drawn", d: strokeOf(spec, mine, plot), ...MINE }) : null,
      stage === "empty" ? invitation(box) : null,
      givenPoint(spec, plot, stage),
      happens
        ? [mine.map((one) => dot(one, plot)), truths(spec, plot)]
        : [
            spec.points.map((one) => handle(spec, one, state[one.name], plot)),
            valuesOf(mine.map((one) => [one.at, one.mine]), spec, plot, MINE_TEXT),
          ],
    ],
  };
}

const MINE = {
  fill: "none",
  stroke: ink.communication,
  "stroke-width": 2.5,
  "stroke-dasharray": "7 5",
  "stroke-linejoin": "round",
};
const MINE_TEXT = { fill: ink.communicationText, ...bold };
const TRUTH_TEXT = { fill: ink.forwardText, ...bold };
const startOfX = ({ x }) => x.values[x.index];

function axes(spec, { box, across, up }, width) {
  const { x, y, points } = spec;
  const places = [startOfX(spec), ...points.map(({ at }) => at)];
  const column = { y1: box.top, y2: box.bottom + 5, stroke: ink.line };
  const below = { ...soft, ...middle, y: box.bottom + 19, "font-size": width < WIDE ? 11 : 12.5 };
  return [
    levels(ticks(...y.range, "log", 8), box.left - 14, box.right, up, (v) => text(spec, v)),
    mark.line({ x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, stroke: ink.soft }),
    places.map((at) => [
      mark.line({ ...column, x1: across(at), x2: across(at) }),
      mark.text({ x: across(at), ...below }, formatQuantity(at, x.unit)),
    ]),
    mark.text({ x: 4, y: 16 }, y.label),
    mark.text({ x: box.right, y: box.bottom + 40, ...end }, `${x.label} →`),
  ];
}

function strokeOf(spec, mine, { across, up }) {
  const line = [[startOfX(spec), spec.given], ...mine.map(({ at, mine: value }) => [at, value])];
  line.sort(([a], [b]) => a - b);
  const [px, py] = [line.map(([at]) => across(at)), line.map(([, value]) => up(value))];
  return pathOf(px, py);
}

function invitation({ left, right, top, bottom }) {
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  return [
    mark.text({ x, y, ...middle, ...bold, ...halo, "font-size": 22 }, "Draw it here"),
    mark.text({ x, y: y + 26, ...middle, ...halo, "font-size": 15 }, "from the dot to the right"),
  ];
}

// The point that is given. A finger on it draws, and does not scroll the page.
function givenPoint(spec, { across, up }, stage) {
  const [cx, cy] = [across(startOfX(spec)), up(spec.given)];
  const dot = mark.circle({ cx, cy, r: 6, fill: ink.text });
  if (stage === "happens") return dot;
  const room = { class: "dt-grab", cx, cy, r: 28, fill: ink.paper, "fill-opacity": 0 };
  const ring = { cx, cy, r: 12, fill: ink.communication, "fill-opacity": 0.4 };
  const words = { x: cx + 14, y: cy + 5, ...bold, ...halo };
  const begins = [mark.circle(ring), mark.text(words, text(spec, spec.given))];
  return [stage === "empty" ? begins : null, dot, mark.circle(room)];
}

// A point waits above the plot until it is drawn.
function handle(spec, { name, at }, value, { box, across, up }) {
  const waits = value === null;
  const [cx, cy] = [across(at), waits ? box.top - 14 : up(value)];
  const look = waits
    ? { r: 6, fill: ink.paper, stroke: ink.soft, "stroke-dasharray": "3 2" }
    : { r: 9, fill: ink.communication, stroke: ink.paper, "stroke-width": 2 };
  const ways = {
    d: `M${cx - 5} ${cy - 14}l5 -5l5 5M${cx - 5} ${cy + 14}l5 5l5 -5`,
    fill: "none",
    stroke: ink.communicationText,
    "stroke-width": 2,
  };
  return mark.g(
    { grip: name, says: waits ? "not drawn" : text(spec, value) },
    mark.circle({ class: "dt-handle", cx, cy, ...look }),
    waits ? null : mark.path(ways),
    mark.circle({ class: "dt-grab", cx, cy, r: 24, fill: ink.paper, "fill-opacity": 0 }),
  );
}

const dot = ({ at, mine }, { across, up }) =>
  mark.circle({ class: "dt-mine", cx: across(at), cy: up(mine), r: 5, fill: ink.communication });

function revealed({ x, curve, guide }, mine, fresh, { across, up }) {
  const px = x.values.map(across);
  const stroke = fresh ? { class: "dt-curve dt-fresh", pathLength: 1 } : { class: "dt-curve" };
  const gap = { stroke: ink.soft, "stroke-width": 1.2, "stroke-dasharray": "2 3" };
  return [
    guide ? guideLine(guide, px, up) : null,
    mark.path({ ...stroke, d: pathOf(px, curve.map(up)), ...curveOf(0) }),
    mine.map(({ at, mine: drawn, truth }) => {
      const ends = { x1: across(at), x2: across(at), y1: up(drawn), y2: up(truth) };
      return mark.line({ class: "dt-gap", ...ends, ...gap });
    }),
  ];
}

function guideLine({ label, values }, px, up) {
  const i = Math.floor(px.length * 0.62);
  const words = { x: px[i] - 8, y: up(values[i]) + 14, ...soft, ...end, ...halo };
  return [mark.path({ d: pathOf(px, values.map(up)), ...guideLook }), mark.text(words, label)];
}

function truths(spec, plot) {
  const look = { r: 5, fill: ink.forward, stroke: ink.paper, "stroke-width": 2 };
  const { across, up } = plot;
  return [
    spec.points.map(({ at, truth }) => mark.circle({ cx: across(at), cy: up(truth), ...look })),
    valuesOf(spec.points.map(({ at, truth }) => [at, truth]), spec, plot, TRUTH_TEXT),
  ];
}

// Values beside their points, from the right; one in its neighbour's way stays unsaid.
function valuesOf(points, spec, { box, across, up }, look) {
  let free = Infinity;
  return [...points]
    .sort(([a], [b]) => b - a)
    .map(([at, value], i, all) => {
      const falls = i + 1 < all.length ? all[i + 1][1] > value : value < spec.given;
      const last = across(at) + LABEL > box.right;
      const right = last ? box.right : across(at) + LABEL;
      if (right > free) return null;
      free = right - LABEL;
      const place = last ? { x: across(at) - 12, ...end } : { x: across(at) + 12 };
      const y = up(value) + (last && falls ? 22 : -9);
      return mark.text({ ...place, y, ...look, ...halo }, text(spec, value));
    });
}

// A sweep sets every point that it passes, also where the pointer jumps over it, and the one that it
// is nearest to, unless that is the given one.
function drag(spec, state, { stage }, width, { x, y, last }) {
  if (stage === "happens") return {};
  const { across, up } = plotOf(spec, width);
  const { values } = spec.controls[0];
  const levelAt = (py) => values[nearest(values.slice(0, -1), up.invert(py), "log")];
  const off = (at) => Math.abs(across(at) - x);
  const reach = Math.min(off(startOfX(spec)), ...spec.points.map(({ at }) => off(at)));
  const moves = spec.points.map(({ name, at }) => {
    const place = across(at);
    const passed = (place - last.x) * (place - x) < 0;
    const share = passed ? (place - last.x) / (x - last.x) : 1;
    return passed || off(at) === reach ? [name, levelAt(last.y + share * (y - last.y))] : null;
  });
  return Object.fromEntries(moves.filter(Boolean));
}

// The browser keeps a bet when it has been answered, and that somebody skipped it.
const kept = {
  write(spec, state) {
    if (!state.stage) return null;
    const drawn = spec.points.map(({ name }) => state[name]);
    return drawn.some((value) => value !== null) ? { drawn } : { skipped: true };
  },
  read(spec, stored) {
    const whole = stored?.drawn?.length === spec.points.length;
    const mine = whole ? spec.points.map(({ name }, i) => [name, stored.drawn[i]]) : [];
    const stage = whole || stored?.skipped ? "happens" : null;
    return { ...emptied(spec), ...Object.fromEntries(mine), stage };
  },
};

export default widget({ hint: HINT, view, draw, drag, kept });
