// Model against data with lines of equal loss and a budget; below, how the loss rises along it.

const HINT =
  "Tab to the sliders and use the arrow keys. Above, every thin line is one loss, the thick one a budget; " +
  "below is the loss along it, above the best. Green is what is best at every budget.";
const [MODELS, TOKENS, DEEP] = [[1e7, 1e13], [1e7, 1e15], 0.12];
const WORDS_OF = [[1e12, "T", "trillion"], [1e9, "B", "billion"], [1e6, "M", "million"]]; // prettier-ignore
const LEVELS = [1.9, 2, 2.2, 2.5, 3, 4];

// A number of parameters or tokens: "36.2 billion" in a sentence, "10 B" at an axis.
function manyOf(value, digits = 3, word = 2) {
  const unit = WORDS_OF.find(([one]) => value >= 0.9995 * one) ?? WORDS_OF[2];
  return `${Number((value / unit[0]).toPrecision(digits))} ${unit[word]}`;
}

// The three formulas of a law: best size of a budget, loss, tokens to a loss.
function lawOf(spec, state) {
  const at = valuesAt(spec, state);
  const own = Object.fromEntries(spec.laws[state.law]);
  const best = (run_flops) => at(spec.best)({ ...own, run_flops });
  const loss = (params, run_flops) =>
    at(spec.loss)({ ...own, params, tokens: run_flops / 6 / params });
  const iso = (params, reached_loss) => at(spec.iso)({ ...own, params, reached_loss });
  return { best, loss, iso };
}

function view(spec, state) {
  const law = lawOf(spec, state);
  const C = state.run_flops;
  const best = law.best(C);
  const N = state.share * best;
  const D = C / 6 / N;
  const lowest = law.loss(best, C);
  const above = law.loss(N, C) - lowest;
  const each = D / N;
  const size = `${manyOf(N)} parameters`;
  const text = `${above.toFixed(4)} nats above the best`;
  return {
    names: { above, each },
    law, best, N, D, lowest,
    rows: [
      ["this run", `${size}, ${manyOf(D)} tokens, ${formatQuantity(each, "", 3)} for each`],
      ["its loss", `${(lowest + above).toFixed(3)} nats per token, ${text}`],
      ["the best of this budget", `${manyOf(best)} parameters, ${lowest.toFixed(3)} nats per token`],
    ],
    said: `With ${formatQuantity(C, "FLOP")}, ${size} on ${manyOf(D)} tokens end ${text}.`,
  }; // prettier-ignore
}

function draw(spec, state, seen, width) {
  const box = { left: 62, right: width - 16, top: 34, bottom: 34 + clamp(width * 0.4, 190, 290) };
  const low = { ...box, top: box.bottom + 76, bottom: box.bottom + 196 };
  const across = scaleOf(...MODELS, "log", box.left, box.right);
  const up = scaleOf(...TOKENS, "log", box.bottom, box.top);
  const deep = scaleOf(0, DEEP, "linear", low.bottom, low.top);
  const sizes = Array.from({ length: 121 }, (_, i) => across.invert(box.left + (i * (box.right - box.left)) / 120));
  const few = Math.max(2, Math.floor((box.right - box.left) / 90));
  const count = (v) => manyOf(v, 2, 1);
  return {
    height: low.bottom + 52,
    label:
      "Above, tokens against parameters: lines of equal loss, a line of equal compute, and the best of all " +
      "budgets. Below, the loss along the budget, above its least value.",
    marks: [
      mark.text({ x: 4, y: 18 }, "tokens ↑"),
      levels([1e8, 1e10, 1e12, 1e14], box.left, box.right, up, count),
      axisBelow(decades(...MODELS, few), across, box, 20, count),
      plane(spec, state, seen, { box, across, up, sizes }),
      mark.text({ x: 4, y: low.top - 14 }, "loss above the best, nats ↑"),
      levels([0, 0.04, 0.08, 0.12], low.left, low.right, deep, (v) => v.toFixed(2)),
      axisBelow(decades(...MODELS, few), across, low, 20, count),
      mark.text({ x: low.right, y: low.bottom + 40, ...end }, "parameters →"),
      valley(state, seen, { low, across, deep, sizes }),
    ],
  }; // prettier-ignore
}

function plane(spec, { run_flops: C }, { law, N, D, best }, { box, across, up, sizes }) {
  const placed = (d) => (d > 0 ? up(d) : NaN);
  const lineOf = (tokens) => pathOf(sizes.map(across), sizes.map((n) => placed(tokens(n))));
  const thin = { fill: "none", stroke: ink.soft, "stroke-width": 1.1 };
  const budgets = Array.from({ length: 41 }, (_, i) => 10 ** (15 + i * 0.4));
  const bests = budgets.map((one) => [law.best(one), one / 6 / law.best(one)]);
  return framed(
    box,
    LEVELS.map((loss) => [
      mark.path({ d: lineOf((n) => law.iso(n, loss)), ...thin }),
      levelName(law, loss, { box, across, up }),
    ]),
    mark.path({ d: pathOf(bests.map(([n]) => across(n)), bests.map(([, d]) => up(d))), ...curveOf(3) }),
    mark.path({ d: lineOf((n) => C / 6 / n), ...curveOf(0) }),
    dotAt(across(best), up(C / 6 / best), ink.fourth, 5),
    dotAt(across(N), up(D), ink.backward, 7),
  ); // prettier-ignore
}

// A line's loss stands on its lower branch, near the right border.
function levelName(law, loss, { box, across, up }) {
  const n = across.invert(box.right - 6);
  const y = up(law.iso(n, loss));
  return y > box.top + 14 && y < box.bottom - 4
    ? mark.text({ x: box.right - 6, y: y - 4, ...soft, ...end, ...halo }, `${loss}`)
    : null;
}

function valley({ run_flops: C }, { law, N, lowest, names }, { low, across, deep, sizes }) {
  const rise = sizes.map((n) => deep(law.loss(n, C) - lowest));
  const band = { x: low.left, width: low.right - low.left, y: deep(0.01), height: low.bottom - deep(0.01) };
  return framed(
    { ...low, top: low.top - 8, bottom: low.bottom + 8 },
    mark.rect({ ...band, fill: ink.fourth, "fill-opacity": 0.16 }),
    mark.text({ x: low.left + 8, y: deep(0.01) - 5, ...soft, ...halo }, "within 0.01 nats"),
    mark.path({ d: pathOf(sizes.map(across), rise), ...curveOf(0) }),
    dotAt(across(N), deep(Math.min(names.above, DEEP)), ink.backward, 7),
  );
}

const dotAt = (cx, cy, fill, r) =>
  mark.circle({ cx, cy, r, fill, stroke: ink.paper, "stroke-width": 2 });

export default widget({ hint: HINT, view, draw });
