// Above, the losses of all runs by size, a parabola for each budget; below, the feet of the parabolas.

const HINT =
  "Switch how the runs were counted and trained, and pick a budget. Filled points are the lowest of a " +
  "parabola; a cross says that a budget does not show its best model.";
const [PARAMS, NATS] = [[2.4e5, 1.1e9], [2.9, 7]];

const settingOf = ({ run, settings }, { counted, warmup, training }) => {
  const found = run.find(([c, w, t]) => c === counted && w === warmup && t === training);
  return found ? settings[found[3]] : null;
};

const millions = (N) => `${+(N / 1e6).toPrecision(3)} million`;
const inMillions = (N) => `${+(N / 1e6).toPrecision(1)}`;

const isOf = ({ budget }, state) => Math.abs(Math.log(budget / state.budget)) < 0.1;

function view(spec, state) {
  const setting = settingOf(spec, state);
  if (!setting)
    return {
      names: { there: 0, exponent: 0, used: 0 },
      setting,
      rows: [["no such runs", "nothing to fit"]],
      said: "No runs were made so, or they are not in this table. Change one switch more.",
    };
  const [, exponent, low, high] = setting.law;
  const used = setting.budgets.filter(({ best }) => best).length;
  const one = setting.budgets.find((some) => isOf(some, state));
  return {
    names: { there: 1, exponent, used },
    setting,
    rows: [
      ["the best size grows as the budget to the power", exponent.toFixed(3)],
      ["with 95 % of the resamples between", `${low.toFixed(3)} and ${high.toFixed(3)}`],
      ["budgets that show a best model", `${used} of ${setting.budgets.length}`],
      [`the best at ${formatQuantity(state.budget, "FLOP")}`, bestOf(one)],
    ],
    said: `The best size grows as the budget to the power ${exponent.toFixed(2)}. ${aboutOf(one, state)}`,
  };
}

const bestOf = (one) =>
  !one ? "no runs" : one.best ? `${millions(one.best)} parameters` : "not seen";

function aboutOf(one, { budget }) {
  const at = `At ${formatQuantity(budget, "FLOP")}`;
  if (!one) return `${at} there are no runs.`;
  if (!one.best) return `${at} no best model is seen: ${one.refused}.`;
  const each = formatQuantity(budget / 6 / one.best ** 2, "", 3);
  return `${at} the best has ${millions(one.best)} parameters and ${each} tokens for each.`;
}

function draw(spec, state, { setting }, width) {
  const box = { left: 58, right: width - 16, top: 34, bottom: 236 };
  const low = { ...box, top: 308, bottom: 422 };
  const across = scaleOf(...PARAMS, "log", box.left, box.right);
  const up = scaleOf(...NATS, "log", box.bottom, box.top);
  const budgets = spec.controls.find(({ name }) => name === "budget").values;
  const along = scaleOf(budgets[0] / 1.5, budgets[budgets.length - 1] * 1.5, "log", low.left, low.right);
  const rise = scaleOf(...PARAMS, "log", low.bottom, low.top);
  return {
    height: 474,
    label: "Above, loss against parameters, one curve for each budget; below, the best size against the budget.",
    marks: [
      mark.text({ x: 4, y: 18 }, "loss (nats per token) ↑"),
      levels([3, 4, 5, 6], box.left, box.right, up, (v) => `${v}`),
      axisBelow(decades(...PARAMS, 5), across, box, 20, inMillions),
      mark.text({ x: box.right, y: box.bottom + 38, ...end }, "parameters that are counted, in millions →"),
      mark.text({ x: 4, y: low.top - 10 }, "best size, in millions of parameters ↑"),
      levels([1e6, 1e7, 1e8, 1e9], low.left, low.right, rise, inMillions),
      axisBelow(decades(along.invert(low.left), along.invert(low.right), 5), along, low, 20, (v) =>
        formatQuantity(v, "FLOP"),
      ),
      mark.text({ x: low.right, y: low.bottom + 38, ...end }, "budget →"),
      setting
        ? [curves(setting, state, box, across, up), feet(setting, state, low, along, rise)]
        : mark.text(
            { x: (box.left + box.right) / 2, y: 140, ...middle, ...bold, ...halo },
            "no such runs",
          ),
    ],
  };
}

// The chosen budget last, so that it lies above the others.
function curves({ budgets }, state, box, across, up) {
  const ordered = [...budgets].sort((a, b) => isOf(a, state) - isOf(b, state));
  return framed(
    box,
    ordered.map((one) => curveOfBudget(one, isOf(one, state), across, up)),
  );
}

function curveOfBudget({ points, ends, bend, best }, chosen, across, up) {
  const [colour, opacity] = chosen ? [ink.backward, 1] : [ink.forward, 0.55];
  const [middleOf, c2, c1, c0] = bend;
  const loss = (N) => Math.exp((c2 * (Math.log(N) - middleOf) + c1) * (Math.log(N) - middleOf) + c0);
  const grid = Array.from({ length: 25 }, (_, i) => ends[0] * (ends[1] / ends[0]) ** (i / 24));
  const look = { fill: "none", stroke: colour, "stroke-opacity": opacity, "stroke-width": chosen ? 2.5 : 1.5 };
  return [
    points.map(([N, value]) =>
      mark.circle({ cx: across(N), cy: up(value), r: chosen ? 3.4 : 2, fill: colour, "fill-opacity": opacity }),
    ),
    best ? mark.path({ d: pathOf(grid.map(across), grid.map((N) => up(loss(N)))), ...look }) : null,
    best ? footAt(across(best), up(loss(best)), chosen) : crossAt(across(lowestOf(points)), up(leastOf(points))),
  ];
}

const leastOf = (points) => Math.min(...points.map(([, loss]) => loss));
const lowestOf = (points) => points.find(([, loss]) => loss === leastOf(points))[0];

const footAt = (cx, cy, chosen) =>
  mark.circle({ cx, cy, r: chosen ? 6 : 4, fill: chosen ? ink.backward : ink.fourth, stroke: ink.paper, "stroke-width": 1.5 });
const crossAt = (x, y) =>
  mark.path({ d: `M${x - 5} ${y - 5}l10 10M${x - 5} ${y + 5}l10 -10`, stroke: ink.text, "stroke-width": 2 });

function feet({ budgets, law }, state, low, along, rise) {
  const [coefficient, exponent] = law;
  const ends = [along.invert(low.left), along.invert(low.right)];
  const best = ends.map((C) => rise(coefficient * C ** exponent));
  return framed(
    low,
    mark.path({ d: pathOf([low.left, low.right], best), ...curveOf(3) }),
    budgets.filter((one) => one.best).map((one) => footAt(along(one.budget), rise(one.best), isOf(one, state))),
    mark.text({ x: low.left + 10, y: low.top + 18, ...bold, ...halo }, `power ${exponent.toFixed(2)}`),
  );
}

export default widget({ hint: HINT, view, draw });
