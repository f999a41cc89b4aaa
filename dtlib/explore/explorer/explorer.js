// Curves over one variable: sliders, a probe on the axis, and the formulas with live numbers.

const HINT =
  "Drag in the figure, or Tab to the sliders and use the arrow keys; " +
  "Page Up and Page Down make larger steps.";
const WIDE = 560;

function view(spec, state) {
  const { curves, y } = spec;
  const value = valuesAt(spec, state);
  const found = curves.map(({ js }) => value(js)());
  return {
    names: namesOf(spec, found),
    found,
    rows: curves.map(({ label }, i) => [label, formatQuantity(found[i], y.unit, 3)]),
    said: `At ${whereOf(spec, state)}: ${comparison(curves, found, y.unit)}`,
  };
}

function comparison(curves, found, unit) {
  const sorted = curves.map(({ label }, i) => [label, found[i]]).sort((a, b) => a[1] - b[1]);
  const values = sorted.map(([label, v]) => `${label} ${formatQuantity(v, unit, 3)}`).join(", ");
  const [least, most] = [sorted[0], sorted[sorted.length - 1]];
  if (sorted.length === 1 || !(least[1] > 0)) return `${values}.`;
  const ratio = `${formatQuantity(most[1] / least[1], "", 3)} times`;
  const more = unit === "s" ? `takes ${ratio} as long as` : `is ${ratio}`;
  return `${values}. ${sentence(most[0])} ${more} ${least[0]}.`;
}

const boxOf = ({ curves }, width) => {
  const longest = Math.max(...curves.map(({ label }) => label.length));
  const names = width >= WIDE ? clamp(longest * 8 + 22, 90, 150) : 14;
  return { left: 62, right: width - names, top: 46, bottom: clamp(width * 0.5, 230, 350) + 46 };
};

const acrossOf = ({ controls: [x] }, { left, right }) =>
  scaleOf(x.values[0], x.values[x.values.length - 1], x.scale, left, right);

// Everything that is computed for a drawing: scales, and each line at the places of `samples`.
function plotOf(spec, state, seen, width) {
  const { y, controls: [x] } = spec; // prettier-ignore
  const box = boxOf(spec, width);
  const across = acrossOf(spec, box);
  const value = valuesAt(spec, state);
  const valueAt = (js, at) => value(js)({ [x.name]: at });
  const inner = spec.marks
    .map(({ js }) => value(js)())
    .filter((v) => v > x.values[0] && v < x.values[x.values.length - 1]);
  const samples = x.scale === "powers of two" ? x.values : evenly(box, across, inner);
  const linesOf = (those) => those.map(({ js }) => samples.map((at) => valueAt(js, at)));
  const [lines, guides] = [linesOf(spec.curves), linesOf(spec.guides)];
  const range = rangeOf(y, lines.flat());
  const up = scaleOf(...range, y.scale, box.bottom, box.top);
  return { x, y, box, width, across, up, range, valueAt, value, samples, lines, guides, seen, state };
}

function evenly({ left, right }, across, inner) {
  const count = Math.round((right - left) / 3);
  const even = Array.from({ length: count + 1 }, (_, i) =>
    across.invert(left + (i * (right - left)) / count),
  );
  return [...even, ...inner].sort((a, b) => a - b);
}

// The vertical axis is as long as at the start, or longer where a curve would leave it.
function rangeOf({ scale, range: [low, high] }, values) {
  const linear = scale === "linear";
  const found = values.filter((v) => Number.isFinite(v) && (linear || v > 0));
  const [least, most] = [Math.min(...found), Math.max(...found)];
  return [
    least < low ? (linear ? least : least / 1.5) : low,
    most > high ? most * (linear ? 1.08 : 1.5) : high,
  ];
}

function draw(spec, state, seen, width) {
  const plot = plotOf(spec, state, seen, width);
  const { x, y, box, across, up, samples } = plot;
  const path = (values) => pathOf(samples.map(across), values.map(up));
  return {
    height: box.bottom + 54,
    label: `${y.label} against ${x.label}: ${spec.curves.map(({ label }) => label).join(", ")}.`,
    marks: [
      axes(plot),
      framed(
        box,
        plot.guides.map((values) => mark.path({ d: path(values), ...guideLook })),
        spec.curves.map(({ key, name }, i) =>
          mark.path({
            class: "dt-curve",
            "data-symbol": name,
            d: path(plot.lines[i]),
            ...curveOf(i),
            ...dimmed(state, key),
          }),
        ),
      ),
      spec.guides.map(({ label }, i) => guideName(label, plot.guides[i], plot)),
      spec.marks.map((one) => place(one, spec.curves, plot)),
      endNames(spec.curves, plot),
      probe(spec.curves, plot),
    ],
  };
}

function axes({ x, y, box, across, up, range }) {
  const { left, right, top, bottom } = box;
  const ends = [x.values[0], x.values[x.values.length - 1]];
  const below = quantityTicks(...ends, x.scale, (right - left) / 64, x.unit);
  const beside = quantityTicks(...range, y.scale, (bottom - top) / 34, y.unit);
  return [
    levels(beside, left, right, up, (v) => formatQuantity(v, y.unit)),
    axisBelow(below, across, box, 28, (v) => formatQuantity(v, x.unit)),
    mark.text({ x: 4, y: 16 }, y.label),
    mark.text({ x: right, y: bottom + 49, ...end }, `${x.label} ${x.plain} →`),
  ];
}

function guideName(label, values, { box, up }) {
  const at = clamp(up(values[Math.round(values.length * 0.04)]), box.top + 12, box.bottom - 2);
  return mark.text({ x: box.left + 16, y: at - 6, ...soft, ...halo }, label);
}

// A position on the axis. Its name stands at the top or the bottom of its line, where it crosses no
// curve.
function place({ label, plain, js }, curves, { x, state, box, width, across, up, value, valueAt }) {
  const at = value(js)();
  const px = across(at);
  if (!(px >= box.left && px <= box.right)) return null;
  const words = [label, `${plain} = ${formatQuantity(at, x.unit, 3)}`.trim()];
  const text = width >= WIDE ? [words.join(" ")] : words;
  const size = 12 + 6.8 * Math.max(...text.map((line) => line.length));
  const tall = 16 * text.length;
  const corners = [1, -1].flatMap((side) =>
    [box.bottom - tall - 6, box.top + 2].map((top) => ({ side, top })),
  );
  const probed = (across(state[x.name]) - px) / size;
  const crossed = ({ side, top }) =>
    (probed * side > 0 && probed * side < 1.1) ||
    [0.02, 0.25, 0.5, 0.75, 1].some((part) => {
      const edge = px + side * size * part;
      if (edge < box.left || edge > box.right) return true;
      const heights = curves.map((curve) => up(valueAt(curve.js, across.invert(edge))));
      return heights.some((py) => py > top - 4 && py < top + tall + 4);
    });
  const free = corners.find((corner) => !crossed(corner));
  const { side, top } = free ?? corners[px > width / 2 ? 3 : 1];
  const anchor = { "text-anchor": side > 0 ? "start" : "end" };
  return [
    mark.line({ x1: px, x2: px, y1: box.top, y2: box.bottom, ...guideLook, "stroke-dasharray": "2 4" }),
    text.map((line, i) =>
      mark.text({ x: px + 6 * side, y: top + 13 + 16 * i, "font-size": 12.5, ...anchor, ...halo }, line),
    ),
  ];
}

const nameOf = (i, state, key) => ({
  fill: inkTextOf(i),
  "font-weight": 650,
  ...dimmed(state, key),
});

// The curves' names at their right ends, moved apart. A narrow figure names them at the probe.
function endNames(curves, { box, width, up, lines, state }) {
  if (width < WIDE) return [];
  const ends = lines
    .map((line, i) => ({ i, at: clamp(up(line[line.length - 1]), box.top, box.bottom) }))
    .sort((a, b) => a.at - b.at);
  const placed = spread(ends.map(({ at }) => at), 19, box.bottom - 8); // prettier-ignore
  return ends.map(({ i, at }, k) => [
    mark.path({ d: `M${box.right + 2} ${at}L${box.right + 10} ${placed[k]}`, stroke: inkOf(i) }),
    mark.text(
      { x: box.right + 14, y: placed[k] + 4, ...nameOf(i, state, curves[i].key) },
      curves[i].label,
    ),
  ]);
}

// The probe: a line with a dot and the value on every curve, and a handle on the axis.
function probe(curves, { x, y, state, seen, box, width, across, up }) {
  const px = across(state[x.name]);
  const dots = seen.found
    .map((value, i) => ({ i, value, at: up(value) }))
    .filter(({ at }) => at >= box.top - 1 && at <= box.bottom + 1)
    .sort((a, b) => a.at - b.at);
  const placed = spread(dots.map(({ at }) => at + 14), 17, box.bottom - 6); // prettier-ignore
  const room = Math.max(px - box.left, box.right - px) - 16;
  const words = dots.map(({ i, value }) => {
    const number = formatQuantity(value, y.unit, 3);
    const named = `${curves[i].label} ${number}`;
    return width < WIDE && curves.length > 1 && 6.8 * named.length < room ? named : number;
  });
  const turned = px + 16 + 7.4 * Math.max(0, ...words.map(({ length }) => length)) > box.right;
  const beside = { x: px + (turned ? -10 : 10), "text-anchor": turned ? "end" : "start", ...halo };
  return [
    mark.line({ x1: px, x2: px, y1: box.top - 6, y2: box.bottom, stroke: ink.text, "stroke-width": 1.2 }),
    flag(`${x.plain} = ${formatQuantity(state[x.name], x.unit, 3)}`, px, box.top - 28, box),
    dots.map(({ i, at }, k) => [
      mark.circle({ cx: px, cy: at, r: 5, fill: inkOf(i), stroke: ink.paper, "stroke-width": 2 }),
      mark.text({ ...beside, y: placed[k] + 4, ...nameOf(i, state, curves[i].key) }, words[k]),
    ]),
    grip(px, box.bottom),
  ];
}

function drag(spec, state, seen, width, { x: px }) {
  const box = boxOf(spec, width);
  const [x] = spec.controls;
  const at = acrossOf(spec, box).invert(clamp(px, box.left, box.right));
  return { [x.name]: x.values[nearest(x.values, at, x.scale)] };
}

export default widget({ hint: HINT, view, draw, drag, readout: equationRows });
