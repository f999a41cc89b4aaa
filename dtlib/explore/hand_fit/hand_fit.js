// Measured points, a curve that sliders bend, and the residuals: what the curve still gets wrong.

const HINT = "Tab to the sliders and use the arrow keys; Page Up and Page Down make larger steps.";
const MOST = 2; // a residual beyond twice as long, or half, is drawn at the border

const curveAt = (spec, state) => {
  const value = valuesAt(spec, state)(spec.curves[0].js);
  return (at) => value({ [spec.x.name]: at });
};

function view(spec, state) {
  const { x, points, source, sides } = spec;
  const at = curveAt(spec, state);
  const ratios = points.map(([place, measured]) => at(place) / measured);
  const error = ratios.reduce((sum, r) => sum + Math.abs(r - 1), 0) / ratios.length;
  const far = ratios.map((r) => Math.abs(Math.log(r)));
  const worst = far.indexOf(Math.max(...far));
  const factor = formatQuantity(Math.exp(far[worst]), "×", 3);
  const side = sides[ratios[worst] < 1 ? 0 : 1];
  const text = formatQuantity(error, "%", 3);
  return {
    names: { ...namesOf(spec, [at(x.values[x.index])]), error },
    ratios,
    rows: [["curve", `mean error ${text}`]],
    said:
      `The mean error is ${text}. Worst at ${formatQuantity(points[worst][0], x.unit, 3)}: ` +
      `${factor} too ${side}. ${source}`,
  };
}

function draw(spec, state, { ratios }, width) {
  const { x, y, points } = spec;
  const bottom = 34 + clamp(width * 0.42, 190, 300);
  const box = { left: 62, right: width - 18, top: 34, bottom };
  const low = { ...box, top: bottom + 26, bottom: bottom + 96 };
  const across = scaleOf(x.values[0], x.values[x.values.length - 1], x.scale, box.left, box.right);
  const up = scaleOf(...y.range, "log", box.bottom, box.top);
  const off = scaleOf(1 / MOST, MOST, "log", low.bottom, low.top);
  const at = curveAt(spec, state);
  const grid = Array.from({ length: 121 }, (_, i) =>
    across.invert(box.left + (i * (box.right - box.left)) / 120),
  );
  const d = pathOf(grid.map(across), grid.map((v) => up(at(v)))); // prettier-ignore
  return {
    height: low.bottom + 54,
    label:
      `${y.label} against ${x.label}: ${points.length} measured points and the curve; ` +
      "below, curve over measured.",
    marks: [
      axes(spec, box, low, across, up, off),
      framed(box, mark.path({ class: "dt-curve", d, ...curveOf(0) })),
      points.map(([v, measured]) =>
        mark.circle({ cx: across(v), cy: up(measured), r: 4, fill: ink.text }),
      ),
      ratios.map((ratio, i) => residual(across(points[i][0]), ratio, off)),
    ],
  };
}

function residual(x, ratio, off) {
  const y = off(clamp(ratio, 1 / MOST, MOST));
  return [
    mark.line({ x1: x, x2: x, y1: off(1), y2: y, stroke: ink.forward, "stroke-width": 1.6 }),
    mark.circle({ class: "dt-fit-residual", cx: x, cy: y, r: 4, fill: ink.forward }),
  ];
}

function axes({ x, y }, box, low, across, up, off) {
  const { left, right } = box;
  const beside = ticks(...y.range, "log", (box.bottom - box.top) / 34);
  const below = ticks(x.values[0], x.values[x.values.length - 1], x.scale, (right - left) / 64);
  return [
    levels(beside, left, right, up, (v) => formatQuantity(v, y.unit)),
    levels([MOST, 1, 1 / MOST], left, right, off, (v) => `${v}×`),
    mark.line({ x1: left, x2: right, y1: box.bottom, y2: box.bottom, stroke: ink.soft }),
    mark.line({ x1: left, x2: right, y1: off(1), y2: off(1), stroke: ink.text }),
    axisBelow(below, across, low, 22, (v) => formatQuantity(v, x.unit)),
    mark.text({ x: 4, y: 16 }, y.label),
    mark.text({ x: left + 6, y: box.bottom + 19, ...halo }, "curve / measured"),
    mark.text({ x: right, y: low.bottom + 43, ...end }, `${x.label} ${x.plain} →`),
  ];
}

export default widget({ hint: HINT, view, draw, readout: equationRows });
