// Above, what a metric makes of models of growing compute; below, the loss that it was made of.

const HINT =
  "Choose a ruler, move k, the items and the power. Filled points are what the test can see; " +
  "hollow ones stand at zero because it has too few items.";

const neededOf = ({ metric, k }) =>
  ({ one: 1, all: k, most: Math.ceil(0.9 * k - 1e-9) })[metric];

function atLeast(success, needed, count) {
  if (needed === count) return success ** count;
  let [sum, log] = [0, 0];
  for (let j = 0; j <= count; j++) {
    if (j >= needed) sum += Math.exp(log + j * Math.log(success) + (count - j) * Math.log1p(-success));
    log += Math.log(count - j) - Math.log(j + 1);
  }
  return Math.min(sum, 1);
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 4: "⁴", 6: "⁶", 8: "⁸" };
const tenTo = (power) =>
  power === 0 ? "1" : `10${[...`${Math.round(power)}`].map((c) => RAISED[c]).join("")}`;

const lossAt = ({ first }, { fall }, decade) => first * 10 ** (-fall * decade);
const metricAt = (spec, state, decade) =>
  atLeast(
    Math.exp(-lossAt(spec, state, decade)),
    neededOf(state),
    state.metric === "one" ? 1 : state.k,
  );

const modelsOf = ({ decades, every }) =>
  Array.from({ length: decades * every + 1 }, (_, i) => i / every);

function view(spec, state) {
  const { metric, k, items, fall } = state;
  const values = modelsOf(spec).map((decade) => metricAt(spec, state, decade));
  const rise = spec.rises[metric][spec.answers.indexOf(k)][spec.falls.indexOf(fall)];
  const hidden = values.filter((value) => value * items < spec.seen).length;
  const needed = neededOf(state);
  const asked = metric === "one" ? "one answer" : `${needed} of ${k} answers`;
  return {
    names: { rise, hidden, needed },
    values,
    rows: [
      ["from one in ten to nine in ten", `${rise.toFixed(2)} decades of compute`],
      ["models that the test does not see", `${hidden} of ${values.length}`],
    ],
    said:
      `${asked} right: the rise takes ${rise.toFixed(2)} decades of compute, and a test of ` +
      `${items} items shows nothing of ${hidden} of the ${values.length} models.`,
  };
}

function draw(spec, state, { values }, width) {
  const { decades, first } = spec;
  const box = { left: 52, right: width - 16, top: 34, bottom: 216 };
  const low = { ...box, top: 262, bottom: 356 };
  const across = scaleOf(0, decades, "linear", box.left, box.right);
  const up = scaleOf(0, 1, "linear", box.bottom, box.top);
  const least = lossAt(spec, { fall: Math.max(...spec.falls) }, decades) / 2;
  const deep = scaleOf(least, first * 2, "log", low.bottom, low.top);
  const grid = Array.from({ length: 161 }, (_, i) => (i * decades) / 160);
  const curve = pathOf(
    grid.map(across),
    grid.map((decade) => up(metricAt(spec, state, decade))),
  );
  const line = pathOf([0, decades].map(across), [0, decades].map((d) => deep(lossAt(spec, state, d))));
  return {
    height: 404,
    label: "Above, the chosen metric against compute; below, the loss of an answer, a straight line.",
    marks: [
      mark.text({ x: 4, y: 16 }, "share of items solved"),
      levels([0, 0.5, 1], box.left, box.right, up, (v) => formatQuantity(v, "%")),
      framed(box, mark.path({ class: "dt-curve", d: curve, ...curveOf(0) })),
      values.map((value, i) => pointOf(spec, state, value, across(i / spec.every), up)),
      mark.text({ x: 4, y: 250 }, "loss of one answer (nats)"),
      levels([1, 1e-2, 1e-4, 1e-6], low.left, low.right, deep, (v) => tenTo(Math.log10(v))),
      framed(low, mark.path({ d: line, fill: "none", stroke: ink.backward, "stroke-width": 1.8 })),
      [0, 2, 4, 6, 8].map((d) =>
        mark.text({ x: across(d), y: 376, "text-anchor": "middle" }, tenTo(d)),
      ),
      mark.text({ x: box.right, y: 396, ...end }, "compute, as a multiple of the first model's"),
    ],
  };
}

function pointOf({ seen }, { items }, value, cx, up) {
  const shown = value * items >= seen;
  const look = shown
    ? { fill: ink.forward, stroke: ink.paper }
    : { fill: ink.paper, stroke: ink.forward };
  return mark.circle({ cx, cy: up(shown ? value : 0), r: 4.5, "stroke-width": 1.5, ...look });
}

export default widget({ hint: HINT, view, draw });
