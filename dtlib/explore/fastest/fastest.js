// Which formula is smallest, over two variables: a map with a movable point.

const HINT =
  "Drag in the map, or Tab to the sliders and use the arrow keys. " +
  "Where a colour is pale, the next one is nearly as good: within 1.1 times, within 2 times.";
const STRENGTHS = [[1.1, 0.18], [2, 0.4], [Infinity, 0.64]]; // prettier-ignore

// The smallest of these values, and how many times larger the next one is.
function winnerOf(values) {
  const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
  return { best: order[0], lead: values[order[1]] / values[order[0]] };
}

function view(spec, state) {
  const { curves, unit, word } = spec;
  const found = curves.map(({ js }) => valuesAt(spec, state)(js)());
  const { best, lead } = winnerOf(found);
  const texts = found.map((v) => formatQuantity(v, unit, 3));
  return {
    names: namesOf(spec, found),
    flagged: `${curves[best].label} ${texts[best]}`,
    rows: curves.map(({ label }, i) => [
      label,
      `${texts[i]}, ${i === best ? word : formatQuantity(found[i] / found[best], "×", 3)}`,
    ]),
    said:
      `At ${whereOf(spec, state)}: ${curves[best].label} is ${word} with ${texts[best]}, ` +
      `the next is ${formatQuantity(lead, "×", 3)} that.`,
  };
}

const boxOf = (width) => ({
  left: 62,
  right: width - 14,
  top: 40,
  bottom: 40 + clamp(width * 0.46, 220, 340),
});

// Columns or rows of the map. A variable that steps in powers of two has one band for each.
const bandsOf = (control, from, to) =>
  (control.scale === "powers of two" ? steppedBands : evenBands)(control, from, to);

function steppedBands({ values }, from, to) {
  const step = (to - from) / values.length;
  return {
    cells: values.map((value, i) => ({ value, low: from + i * step, high: from + (i + 1) * step })),
    place: (value) => from + (values.indexOf(value) + 0.5) * step,
    invert: (at) => Math.round(clamp((at - from) / step - 0.5, 0, values.length - 1)),
    ticks: (most) => values.filter((_, i) => i % Math.ceil(values.length / most) === 0),
  };
}

function evenBands({ values, scale }, from, to) {
  const ends = [values[0], values[values.length - 1]];
  const place = scaleOf(...ends, scale, from, to);
  const count = Math.round(Math.abs(to - from) / 5);
  const edge = (i) => from + (i * (to - from)) / count;
  const cell = (i) => ({ value: place.invert((edge(i) + edge(i + 1)) / 2), low: edge(i), high: edge(i + 1) });
  return {
    cells: Array.from({ length: count }, (_, i) => cell(i)),
    place,
    invert: (at) => nearest(values, place.invert(at), scale),
    ticks: (most) => ticks(...ends, scale, most),
  };
}

function mapOf(spec, state, width) {
  const [x, y] = spec.controls;
  const box = boxOf(width);
  const [columns, lines] = [bandsOf(x, box.left, box.right), bandsOf(y, box.bottom, box.top)];
  const values = spec.curves.map(({ js }) => valuesAt(spec, state)(js));
  const cells = lines.cells.map(({ value: up }) =>
    columns.cells.map(({ value: across }) =>
      winnerOf(values.map((at) => at({ [x.name]: across, [y.name]: up }))),
    ),
  );
  return { x, y, box, columns, lines, cells, state };
}

function draw(spec, state, seen, width) {
  const map = mapOf(spec, state, width);
  const { x, y, box, columns, lines, cells } = map;
  const look = { fill: "none", stroke: ink.text, "stroke-width": 1.4, "stroke-linecap": "square" };
  return {
    height: box.bottom + 54,
    label: `Which is ${spec.word}, over ${x.label} and ${y.label}.`,
    marks: [
      lines.cells.map((line, r) =>
        runs(cells[r]).map((run) => region(run, line, columns.cells, state, spec.curves)),
      ),
      mark.path({ d: borders(cells, columns.cells, lines.cells), ...look }),
      spec.curves.map(({ label }, i) => regionName(label, i, map)),
      axes(map),
      point(map, seen.flagged),
    ],
  };
}

const strengthOf = (lead) => STRENGTHS.find(([below]) => lead < below)?.[1] ?? STRENGTHS[2][1];

function region({ best, strength, from, to }, { low, high }, columns, state, curves) {
  return mark.rect({
    x: columns[from].low,
    width: columns[to].high - columns[from].low,
    y: Math.min(low, high),
    height: Math.abs(high - low),
    fill: inkOf(best),
    "fill-opacity": strength,
    "shape-rendering": "crispEdges",
    ...dimmed(state, curves[best].key),
  });
}

// Neighbouring cells of one look, as one rectangle.
function runs(line) {
  const found = [];
  line.forEach(({ best, lead }, at) => {
    const strength = strengthOf(lead);
    const open = found[found.length - 1];
    if (open && open.best === best && open.strength === strength) open.to = at;
    else found.push({ best, strength, from: at, to: at });
  });
  return found;
}

function borders(cells, columns, lines) {
  let d = "";
  cells.forEach((line, r) =>
    line.forEach(({ best }, c) => {
      const [column, row] = [columns[c], lines[r]];
      if (c + 1 < line.length && line[c + 1].best !== best)
        d += `M${column.high} ${row.low}V${row.high}`;
      if (r + 1 < cells.length && cells[r + 1][c].best !== best)
        d += `M${column.low} ${row.high}H${column.high}`;
    }),
  );
  return d;
}

// A region's name stands in its widest row that is nearest to its middle, off the point's own.
function regionName(label, i, { y, box, columns, lines, cells, state }) {
  const spans = cells.flatMap((line, r) =>
    runs(line.map(({ best }) => ({ best, lead: 1 })))
      .filter(({ best }) => best === i)
      .map(({ from, to }) => ({ r, from: columns.cells[from].low, to: columns.cells[to].high })),
  );
  if (!spans.length) return null;
  const total = spans.reduce((sum, { from, to }) => sum + to - from, 0);
  const centre = spans.reduce((sum, { r, from, to }) => sum + r * (to - from), 0) / total;
  const size = label.length * 7.6;
  const flagged = lines.place(state[y.name]);
  const free = spans.filter(({ r }) => Math.abs(lines.cells[r].low - flagged) > 48);
  const roomy = free.filter(({ from, to }) => to - from > size + 8);
  const [{ r, from, to }] = (roomy.length ? roomy : spans).sort(
    (a, b) => Math.abs(a.r - centre) - Math.abs(b.r - centre),
  );
  const { low, high } = lines.cells[r];
  const at = clamp((from + to) / 2, box.left + size / 2 + 4, box.right - size / 2 - 4);
  const look = { "font-size": 14, "font-weight": 700, ...middle, ...halo };
  return mark.text({ x: at, y: (low + high) / 2 + 5, ...look }, label);
}

function axes({ x, y, box, columns, lines }) {
  const { left, right, top, bottom } = box;
  const beside = lines.ticks((bottom - top) / 26);
  const frame = { x: left, y: top, width: right - left, height: bottom - top };
  return [
    mark.rect({ ...frame, fill: "none", stroke: ink.soft }),
    axisBelow(columns.ticks((right - left) / 64), columns.place, box, 22, (v) =>
      formatQuantity(v, x.unit),
    ),
    beside.map((v) =>
      mark.text({ x: left - 8, y: lines.place(v) + 4, ...soft, ...end }, formatQuantity(v, y.unit)),
    ),
    mark.text({ x: 4, y: 16 }, `${y.label} ${y.plain} ↑`),
    mark.text({ x: right, y: bottom + 43, ...end }, `${x.label} ${x.plain} →`),
  ];
}

function point({ x, y, box, columns, lines, state }, words) {
  const [px, py] = [columns.place(state[x.name]), lines.place(state[y.name])];
  const cross = { stroke: ink.text, "stroke-width": 1.2, "stroke-dasharray": "2 3", opacity: 0.7 };
  return [
    mark.line({ x1: px, x2: px, y1: box.top, y2: box.bottom, ...cross }),
    mark.line({ x1: box.left, x2: box.right, y1: py, y2: py, ...cross }),
    flag(words, px, py - box.top > 44 ? py - 38 : py + 16, box),
    grip(px, py),
  ];
}

function drag(spec, state, seen, width, { x: px, y: py }) {
  const [x, y] = spec.controls;
  const { left, right, top, bottom } = boxOf(width);
  return {
    [x.name]: x.values[bandsOf(x, left, right).invert(clamp(px, left, right))],
    [y.name]: y.values[bandsOf(y, bottom, top).invert(clamp(py, top, bottom))],
  };
}

export default widget({ hint: HINT, view, draw, drag, readout: equationRows });
