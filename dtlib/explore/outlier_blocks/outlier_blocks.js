// The error of the numbers beside an outlier, against its size: one curve for each format.

const HINT =
  "Choose who shares a scale, and move the outlier. Tab to the controls and use the arrow keys.";

const [LEAST, MOST] = [0.004, 1.2];
const percent = (v) => formatQuantity(v, "%", 2);

function view({ errors, sizes, kinds }, { block, outlier }) {
  const place = sizes.indexOf(outlier);
  const found = Object.fromEntries(kinds.map((kind) => [kind, errors[`${kind} ${block}`][place]]));
  const bits = formatQuantity(32 / block, "", 2);
  return {
    names: { ...found, share: 32 / block },
    rows: [
      ...kinds.map((kind) => [`${kind}, error of the others`, percent(found[kind])]),
      ["bits of a scale for each number", bits],
    ],
    said:
      `${formatQuantity(block, "", 4)} numbers share a scale, the outlier is ` +
      `${formatQuantity(outlier, "", 3)} times the usual size: the others are off by ` +
      `${kinds.map((kind) => `${percent(found[kind])} in ${kind}`).join(", ")}.`,
  };
}

function draw({ errors, sizes, kinds }, { block, outlier }, { names }, width) {
  const box = { left: 52, right: width - 56, top: 40, bottom: 290 };
  const across = scaleOf(1, sizes[sizes.length - 1], "log", box.left, box.right);
  const up = scaleOf(LEAST, MOST, "log", box.bottom, box.top);
  const curves = kinds.map((kind, i) => {
    const ys = errors[`${kind} ${block}`].map(up);
    return [
      mark.path({ class: "dt-curve", d: pathOf(sizes.map(across), ys), ...curveOf(i) }),
      mark.circle({ cx: across(outlier), cy: up(names[kind]), r: 5, fill: inkOf(i), stroke: ink.paper }),
    ];
  });
  const heights = kinds.map((kind) => up(errors[`${kind} ${block}`][sizes.length - 1]));
  const order = kinds.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const placed = [];
  order.forEach((i, n) => {
    placed[i] = n ? Math.max(heights[i], placed[order[n - 1]] + 16) : heights[i];
  });
  const tens = decades(1, sizes[sizes.length - 1], (box.right - box.left) / 60);
  return {
    height: 344,
    label: "Error of the numbers beside an outlier, against its size, for three formats.",
    marks: [
      mark.text({ x: 4, y: 16 }, "relative error of the other numbers"),
      levels([0.01, 0.03, 0.1, 0.3, 1], box.left, box.right, up, (v) => formatQuantity(v, "%")),
      mark.line({ x1: across(outlier), x2: across(outlier), y1: box.top, y2: box.bottom,
        stroke: ink.text, "stroke-dasharray": "4 3" }),
      curves,
      kinds.map((kind, i) =>
        mark.text({ x: box.right + 8, y: placed[i] + 4, fill: inkTextOf(i), "font-size": 13 }, kind),
      ),
      tens.map((v) => mark.text({ x: across(v), y: 310, ...soft, ...middle }, formatQuantity(v, "", 2))),
      mark.text({ x: box.right, y: 334, ...end }, "outlier, over the usual size"),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
