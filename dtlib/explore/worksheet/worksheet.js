// A sheet as bars: each total against its limit, a row for each of its parts, and what follows from
// them. The part that is pressed opens to its line.

const HINT =
  "Press a part to open its line: the equation, and what feeds it. " +
  "Up and down arrows go from part to part.";
const ROW = 24;
const BAR = { top: 30, height: 24, rows: 62 };
const TINTS = [0.85, 0.55, 0.3, 0.12];
const WIDE = 400;

const valuesOf = ({ given, lines }, state) => sheetValues(lines, { ...given, ...state });

function view(spec, state) {
  const found = valuesOf(spec, state);
  const first = valuesOf(spec, startOf({}, spec));
  const words = (name) => readable(found[name], spec.known[name].unit);
  const where = spec.controls.map(({ name, label }) => `${label} ${words(name)}`).join(", ");
  const bars = spec.bars.map((key) => barOf(lineOf(spec, key), found, first));
  const totals = bars.map(({ label, whole, limit, sum, unit }) => {
    const limited =
      limit === null ? "" : `, ${whole > limit ? "more than" : "within"} ${readable(limit, unit)}`;
    const most = spec.known[largestOf({ sum }, found)].label;
    return `${label} ${readable(whole, unit)}${limited}, most of it ${most}`;
  });
  return {
    names: found,
    found,
    bars,
    open: state.open,
    said: `With ${where}: ${totals.join("; ")}.`,
  };
}

// A total with its limit, or with what it was at the start; and the value at the right end.
function barOf(line, found, first) {
  const { key, within } = line;
  const [whole, limit] = [found[key], within ? found[within] : null];
  const compared = limit ?? first[key];
  return { ...line, whole, limit, compared, stop: Math.max(whole, compared * (limit ? 1.5 : 1)) };
}

function draw(spec, state, seen, width) {
  const figure = { spec, state, seen, width };
  let top = 0;
  const marks = seen.bars.map((bar) => {
    const y = top;
    top += BAR.rows + ROW * bar.sum.length + 12;
    return [barHead(bar, y, figure), barOfParts(bar, y, figure), rowsAt(bar.sum, y + BAR.rows, bar, figure)];
  });
  const results = rowsAt(spec.results, top, null, figure);
  return {
    height: top + ROW * spec.results.length + 6,
    label: `${seen.bars.map(({ label }) => label).join(" and ")}, part by part.`,
    marks: [marks, results],
  };
}

// The total in words at the left; what it is compared with at the right.
function barHead({ key, label, unit, whole, limit, within, compared }, y, { spec, width }) {
  const over = limit !== null && whole > limit;
  const named = width < WIDE || !within ? "" : ` (${spec.known[within].label})`;
  const verdict = limit === null ? "at the start" : over ? "too much for" : "within";
  const against = `${verdict} ${readable(compared, unit)}${named}`;
  return [
    mark.text({ x: 0, y: y + 16, ...bold }, `${label} ${readable(whole, unit)}`),
    mark.text(
      { x: width, y: y + 16, ...soft, ...end, ...(over ? { fill: ink.backwardText, ...bold } : {}) },
      `▾ ${against}`,
    ),
  ];
}

// The parts side by side, and across them the limit; what lies beyond it is underlined.
function barOfParts({ sum, whole, limit, compared, stop }, y, { spec, state, seen, width }) {
  const across = scaleOf(0, stop, "linear", 0, width);
  const place = { y: y + BAR.top, height: BAR.height };
  let from = 0;
  const segments = sum.map((part, i) => {
    const x = across(from);
    from += seen.found[part];
    const size = { x, width: Math.max(0, across(from) - x) };
    const look = partLook(i, part === seen.open);
    return mark.rect({ ...blinkOf(state, part), ...place, ...size, ...look, set: press(spec, state, part) });
  });
  const at = across(compared);
  const edge = { x1: at, x2: at, y1: place.y - 4, y2: place.y + BAR.height + 4 };
  return [
    segments,
    limit !== null && whole > limit
      ? mark.rect({ x: at, y: place.y + BAR.height, width: width - at, height: 4, fill: ink.backward })
      : null,
    mark.line({ ...edge, stroke: ink.paper, "stroke-width": 6 }),
    mark.line({ ...edge, stroke: ink.text, "stroke-width": 2, "stroke-dasharray": limit === null ? "3 3" : null }),
    mark.path({ d: `M${at} ${place.y - 2}l-4 -6h8Z`, fill: ink.text }),
  ];
}

// A press opens a line, or closes it; what is given has none.
const press = (spec, { open }, key) =>
  lineOf(spec, key) ? { open: open === key ? null : key } : null;
const blinkOf = ({ stirred = [] }, key) => (stirred.includes(key) ? { class: "dt-blink" } : {});
const partLook = (i, opened) => ({
  fill: ink.forward,
  "fill-opacity": TINTS[i % TINTS.length],
  stroke: opened ? ink.text : ink.forward,
  "stroke-width": opened ? 2.5 : 1,
});

const shareOf = (part, whole) => formatQuantity(part / whole, "%", part < whole / 100 ? 1 : 2);

// A row for each of these lines: its name, its value, and its share of the bar above.
function rowsAt(keys, y, bar, { spec, state, seen, width }) {
  return keys.map((key, i) => {
    const { label, unit } = spec.known[key];
    const value = readable(seen.found[key], unit);
    const share = bar && shareOf(seen.found[key], bar.whole);
    const opened = key === seen.open;
    const row = { x: 0, y: y + ROW * i, width, height: ROW, rx: 5 };
    const base = row.y + 16.5;
    const says = `${label}, ${value}${share ? `, ${share} of ${bar.label}` : ""}`;
    return mark.g(
      { set: press(spec, state, key), says, pressed: opened },
      mark.rect({ ...row, fill: ink.forward, "fill-opacity": opened ? 0.14 : 0 }),
      bar && mark.rect({ x: 3, y: row.y + 6, width: 12, height: 12, ...partLook(i, opened) }),
      mark.text({ x: bar ? 20 : 4, y: base }, label),
      mark.text({ ...blinkOf(state, key), x: width - (bar ? 47 : 6), y: base, ...end, ...bold }, value),
      bar && mark.text({ x: width - 6, y: base, ...soft, ...end }, share),
    );
  });
}

// What a moved slider changes blinks.
function changed(spec, state, change, before) {
  const [now, then] = [valuesOf(spec, state), valuesOf(spec, before)];
  return { stirred: Object.keys(now).filter((name) => now[name] !== then[name]) };
}

export default widget({ hint: HINT, view, draw, changed, readout: openedRows, beside: 230 });
