// All legal layouts of a run as dots, memory against time, with the reader's own among them.

const HINT =
  "Each dot is a legal layout; left of the upright line it fits. No dot lies below the stairs, the " +
  "Pareto front: what is smaller than a layout there is slower. Replicas are the rest of the GPUs.";
const GRAIN = 3; // px: dots that are nearer than that are one
const SHORT = { tp: "tp", pp: "pp", dp: "dp", zero: "ZeRO", interleave: "interleave", micro_batch: "micro-batch" };

const seconds = (time) => formatQuantity(time, "s", 3);
const bytes = (count) => formatQuantity(count, "B", 3);
const percent = (share) => formatQuantity(share, "%", 2);

const wordsOf = (spec, { place, dp }) => {
  const { recompute, ...chosen } = { ...choicesAt(spec, place), dp };
  const sizes = Object.entries(SHORT).map(([name, word]) => `${word} ${chosen[name]}`);
  return `${sizes.join(", ")}, recompute ${recompute}`;
};

function view(spec, state) {
  const cloud = cloudOf(spec);
  const one = cloud.at.get(placeIn(spec, state));
  const { best } = cloud;
  const behind = one ? one.seconds / best.seconds - 1 : 0;
  return {
    names: { legal: +Boolean(one), fits: +Boolean(one?.fits), seconds: one?.seconds ?? 0, behind },
    one,
    cloud,
    rows: [
      ...(one ? rowsAbout(spec, one, cloud, behind) : [["no layout of this run", "nothing to time"]]),
      ...(state.shown ? [["the planner's layout", wordsOf(spec, best)], ["its step", seconds(best.seconds)]] : []),
    ],
    actions: [answerOf(spec, state, best)],
    said: one ? saidOf(spec, one, behind) : refusedOf(spec, state, cloud),
  };
}

function rowsAbout({ limit }, one, { fitting }, behind) {
  const slower = fitting.filter((other) => other.seconds > one.seconds).length;
  return [
    ["a step", `${seconds(one.seconds)}, with ${one.dp} replicas`],
    ["the fullest GPU", `${bytes(one.bytes)} of ${bytes(limit)}`, Math.min(1, one.bytes / limit)],
    ["against the fastest that fits", comparison(behind)],
    [`of ${fitting.length} layouts that fit`, `${slower} are slower`],
  ];
}

const comparison = (behind) =>
  behind < 0 ? `${percent(-behind)} shorter` : behind ? `${percent(behind)} longer` : "as fast";

const saidOf = (spec, one, behind) =>
  `With ${wordsOf(spec, one)} a step takes ${seconds(one.seconds)}. ` +
  (one.fits
    ? `It fits, and against the fastest that fits it is ${comparison(behind)}.`
    : `It does not fit: its fullest GPU would hold ${bytes(one.bytes)} of ${bytes(spec.limit)}.`);

function refusedOf(spec, state, cloud) {
  const ways = legalBeside(spec, state, cloud).map(([label, values]) => `${label} ${values.join(" or ")}`);
  const advice = ways.length ? `With the others as they are: ${ways.join("; ")}.` : "Change two of the choices.";
  return `No layout of this run is divided so. ${advice}`;
}

// Nothing is told before the reader has looked.
function answerOf(spec, { shown, ...state }, best) {
  const untouched = spec.controls.every(({ name, values, index }) => state[name] === values[index]);
  const { controls } = spec;
  const chosen = choicesAt(spec, best.place);
  if (shown) return ["Go to the planner's layout", Object.fromEntries(controls.map(({ name }) => [name, chosen[name]]))];
  return ["Show the planner's answer", { shown: 1 }, untouched ? "First look for a better one yourself." : ""];
}

const boxOf = (width) => ({ left: 62, right: width - 14, top: 34, bottom: 34 + clamp(width * 0.5, 240, 330) });

// The plane reaches a little beyond the cloud.
function planeOf({ limit }, { rows }, width) {
  const box = boxOf(width);
  const ends = (values) => [Math.min(...values) / 1.12, Math.max(...values) * 1.12];
  const [x, y] = [ends([limit, ...rows.map((row) => row.bytes)]), ends(rows.map((row) => row.seconds))];
  const across = scaleOf(...x, "log", box.left, box.right);
  return { box, x, y, across, up: scaleOf(...y, "log", box.bottom, box.top) };
}

function draw(spec, { shown }, { one, cloud }, width) {
  const plane = planeOf(spec, cloud, width);
  const { box, across, up } = plane;
  const [fitting, large] = [true, false].map((fits) => cloud.rows.filter((row) => row.fits === fits));
  const dot = { fill: "none", "stroke-width": GRAIN + 1, "stroke-linecap": "round" };
  return {
    height: box.bottom + 50,
    label: `${cloud.rows.length} legal layouts by memory and time; ${fitting.length} of them fit.`,
    marks: [
      beyond(spec, plane),
      mark.path({ ...dot, d: dotsOf(large, plane), stroke: ink.soft, "stroke-opacity": 0.35 }),
      mark.path({ ...dot, d: dotsOf(fitting, plane), stroke: ink.forward, "stroke-opacity": 0.5 }),
      framed(box, mark.path({ d: stairs(cloud.front, plane), ...curveOf(3) })),
      axes(plane),
      shown ? answer(across(cloud.best.bytes), up(cloud.best.seconds), box) : null,
      one ? yours(one, plane) : nowhere(box),
    ],
  };
}

// One path for all dots, at the crossings of a fine grid.
function dotsOf(rows, { across, up }) {
  const at = (px) => GRAIN * Math.round(px / GRAIN);
  const places = new Set(rows.map((row) => `M${at(across(row.bytes))} ${at(up(row.seconds))}h0`));
  return [...places].join("");
}

// From the smallest layout down and to the right.
function stairs(front, { box, across, up }) {
  const [first] = front;
  const steps = front.slice(1).map((row) => `H${across(row.bytes).toFixed(1)}V${up(row.seconds).toFixed(1)}`);
  return `M${across(first.bytes).toFixed(1)} ${box.top}V${up(first.seconds).toFixed(1)}${steps.join("")}H${box.right}`;
}

function beyond({ limit }, { box, across }) {
  const x = across(limit);
  const { top, right, bottom } = box;
  const roomy = right - x > 140;
  return [
    mark.rect({ x, y: top, width: right - x, height: bottom - top, fill: ink.backward, "fill-opacity": 0.1 }),
    mark.line({ x1: x, x2: x, y1: top, y2: bottom, stroke: ink.backward, "stroke-width": 2 }),
    mark.text(
      { x: x + (roomy ? 6 : -6), y: top + 16, "text-anchor": roomy ? "start" : "end", fill: ink.backwardText, ...bold, ...halo },
      `a GPU has ${bytes(limit)}`,
    ),
  ];
}

function axes({ box, x, y, across, up }) {
  const { left, right, top, bottom } = box;
  return [
    mark.rect({ x: left, y: top, width: right - left, height: bottom - top, fill: "none", stroke: ink.soft }),
    axisBelow(ticks(...x, "log", (right - left) / 70), across, box, 20, (v) => formatQuantity(v, "B")),
    ticks(...y, "log", (bottom - top) / 36).map((v) =>
      mark.text({ x: left - 8, y: up(v) + 4, ...soft, ...end }, formatQuantity(v, "s")),
    ),
    mark.text({ x: 4, y: 18 }, "time of a step ↑"),
    mark.text({ x: right, y: bottom + 42, ...end }, "memory of the fullest GPU →"),
  ];
}

function yours({ seconds: time, bytes: held, fits }, { box, across, up }) {
  const [x, y] = [across(held), up(time)];
  const look = { fill: fits ? ink.fourth : ink.backward, stroke: ink.text, "stroke-width": 2 };
  return [
    flag(`yours: ${seconds(time)}, ${bytes(held)}`, x, y - box.top > 44 ? y - 36 : y + 14, box),
    mark.rect({ x: x - 7, y: y - 7, width: 14, height: 14, rx: 3, ...look }),
  ];
}

const nowhere = ({ left, right, top }) =>
  mark.text({ x: (left + right) / 2, y: top + 60, ...middle, ...bold, ...halo }, "not a legal layout");

const answer = (cx, cy, { right }) => [
  mark.circle({ cx, cy, r: 11, fill: "none", stroke: ink.text, "stroke-width": 2.5 }),
  mark.text(
    { x: cx + (right - cx > 90 ? 16 : -16), y: cy + 18, "text-anchor": right - cx > 90 ? "start" : "end", ...bold, ...halo },
    "the planner's",
  ),
];

export default widget({ hint: HINT, view, draw, near: true });
