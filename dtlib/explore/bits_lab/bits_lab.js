// The error of a sum over the ranks against its condition number: one vector under the probe, and a
// cloud of others, each added in the order that is chosen.

const HINT =
  "Tab to the choices and the sliders and use the arrow keys; Page Up and Page Down make larger steps.";
const [BEST, WORST] = [1e-9, 1e9]; // relative errors between which a sum is drawn
const DRAWN = [0, 1, 2]; // vectors of each condition number in the cloud

function sumOf({ orders, formats }, { P, order, kind }, condition, seed) {
  const values = hardNumbers(P, condition, seed);
  const [ordered, bits, chunk] = [orders[order], formats[kind][1], seed % P];
  const error = errorOf(ordered, values, bits, chunk);
  return { values, bits, error, sum: sumIn(ordered, values, bits, chunk) };
}

const percent = (v) =>
  v < 1e-4 ? v.toExponential(1) : v > 1e3 ? `${v.toExponential(1)} times` : formatQuantity(v, "%", 3);

const shortly = (v) =>
  v > 0.005 && v < 5000 ? formatQuantity(v, "", 2) : v.toExponential(0).replace("+", "");

function view(spec, state) {
  const { P, order, kind, condition } = state;
  const { values, bits, error, sum } = sumOf(spec, state, condition, 0);
  const bound = boundOf(P, conditionNumber(values), bits);
  return {
    names: { error, bound },
    bits,
    rows: [
      ["exact sum", exactSum(values).toExponential(3)],
      ["sum of the ranks", sum.toExponential(3)],
      ["relative error", percent(error)],
      ["no order does worse than", percent(bound)],
    ],
    said:
      `${P} ranks, ${spec.orders[order]}, ${spec.formats[kind][0]}, condition number ` +
      `${formatQuantity(condition, "", 3)}: the sum is off by ${percent(error)}.`,
  };
}

function draw(spec, state, { names, bits }, width) {
  const [left, right, top, bottom] = [48, width - 12, 36, 36 + clamp(width * 0.5, 230, 340)];
  const conditions = spec.controls.find(({ name }) => name === "condition").values;
  const [low, high] = [conditions[0], conditions[conditions.length - 1]];
  const across = scaleOf(low, high, "log", left, right);
  const up = scaleOf(BEST, WORST, "log", bottom, top);
  const inside = (error) => clamp(up(Math.max(error, BEST / 10)), top, bottom);
  const cloud = conditions.flatMap((condition, i) =>
    DRAWN.map((k) => {
      const { values, error } = sumOf(spec, state, condition, 1 + DRAWN.length * i + k);
      const cx = across(clamp(conditionNumber(values), low, high));
      return mark.circle({ cx, cy: inside(error), r: 3, fill: ink.soft, "fill-opacity": 0.55 });
    }),
  );
  const ends = [low, high].map((condition) => up(boundOf(state.P, condition, bits)));
  const bound = pathOf([left, right], ends);
  const probe = { x1: across(state.condition), x2: across(state.condition), y1: top, y2: bottom };
  const edge = { stroke: ink.text, "stroke-width": 2.4 };
  return {
    height: bottom + 46,
    label: "Relative error of the sum against the condition number; the bound is a line.",
    marks: [
      headline("relative error of the sum"),
      levels(decades(BEST, WORST, (bottom - top) / 34), left, right, up, shortly),
      timeTicks(decades(low, high, (right - left) / 64), across, bottom + 18, right, shortly),
      mark.text({ x: right, y: bottom + 38, ...end }, "condition number  Σ|g| / |Σg| →"),
      rule(left, right, up(1)),
      mark.text({ x: left + 6, y: up(1) - 6, ...soft, ...halo }, "as large as the sum itself"),
      mark.path({ d: bound, fill: "none", stroke: ink.forward, "stroke-width": 2.2 }),
      cloud,
      mark.line({ ...probe, stroke: ink.text, "stroke-dasharray": "4 3" }),
      mark.circle({ cx: probe.x1, cy: inside(names.error), r: 7, fill: ink.paper, ...edge }),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
