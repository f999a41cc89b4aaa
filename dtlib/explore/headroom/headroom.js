// Headroom: one bar for each resource on a logarithmic axis with its border at 1; the reader drags
// the ends of the bars, which moves the variable behind them.

const HINT =
  "Drag the end of a bar, or Tab to the sliders and use the arrow keys; " +
  "Page Up and Page Down make larger steps.";
const ROW = 62;
const TOP = 40;

const times = (value) => formatQuantity(value, "×", 2);
const percent = (value) => formatQuantity(value, "%", 2);

function view(spec, state) {
  const { curves } = spec;
  const found = curves.map(({ js }) => valuesAt(spec, state)(js)());
  const busy = found.map((headroom) => 1 / headroom);
  const serial = 1 / busy.reduce((sum, time) => sum + time, 1);
  const speed = 1 / Math.max(1, ...busy);
  const least = found.indexOf(Math.min(...found));
  const slowest = found[least] < 1 ? least : null;
  const values = curves.map(({ label }, i) => `${label} ${times(found[i])}`).join(", ");
  const binds =
    slowest === null
      ? "Nothing is slower than the arithmetic."
      : `The arithmetic waits for ${curves[slowest].label}.`;
  return {
    names: { ...namesOf(spec, found), speed },
    found,
    slowest,
    speeds: [serial, speed],
    rows: curves.map(({ label }, i) => [label, times(found[i])]),
    said:
      `Headroom: ${values}. ${binds} ` +
      `Between ${percent(serial)} and ${percent(speed)} of the peak rate.`,
  };
}

const boxOf = ({ curves }, width) => ({
  left: 14,
  right: width - 14,
  top: TOP,
  bottom: TOP + ROW * curves.length,
});
const acrossOf = ({ ends }, { left, right }) => scaleOf(...ends, "log", left, right);

function draw(spec, state, { found, slowest, speeds }, width) {
  const box = boxOf(spec, width);
  const across = acrossOf(spec, box);
  return {
    height: box.bottom + 124,
    label: `Headroom of ${spec.curves.map(({ label }) => label).join(", ")}.`,
    marks: [
      border(spec.ends, box, across, width),
      spec.curves.map(({ label, key }, i) =>
        mark.g(
          dimmed(state, key),
          bar(i === slowest ? `${label}: the slowest` : label, i, found[i], spec.ends, box, across),
        ),
      ),
      speedBar(speeds, box, width),
    ],
  };
}

const anchorOf = (v, [low, high]) => ({
  "text-anchor": v === low ? "start" : v === high ? "end" : "middle",
});

// The half in which the arithmetic waits, the axis, and the border between the halves.
function border(ends, { left, top, bottom }, across, width) {
  const one = across(1);
  const waits = { x: left, y: top, width: one - left, height: bottom - top };
  const waited = width < 480 ? "← is waited for" : "← the arithmetic waits for it";
  return [
    mark.rect({ ...waits, fill: ink.backward, "fill-opacity": 0.09 }),
    ticks(...ends, "log", width / 70).map((v) => [
      mark.line({ x1: across(v), x2: across(v), y1: top, y2: bottom, stroke: ink.line }),
      mark.text({ x: across(v), y: bottom + 18, ...soft, ...anchorOf(v, ends) }, times(v)),
    ]),
    mark.text({ x: left, y: 16 }, "headroom"),
    mark.text({ x: one - 8, y: top - 8, ...soft, ...end }, waited),
    mark.text({ x: one + 8, y: top - 8, ...soft }, "keeps up →"),
    mark.line({ x1: one, x2: one, y1: top - 4, y2: bottom + 4, stroke: ink.text, "stroke-width": 2 }),
  ];
}

function bar(name, i, value, [low, high], { left, right, top }, across) {
  const y = top + ROW * i;
  const [stop, one] = [clamp(across(value), left, right), across(1)];
  const beyond = value < low ? " ◂" : value > high ? " ▸" : "";
  const words = `${times(value)}${beyond}`;
  const room = 16 + words.length * 8;
  const outward = value >= 1 ? stop + room < right : stop - room < left;
  const fill = { fill: inkOf(i), "fill-opacity": 0.55, stroke: inkOf(i) };
  const beside = { x: stop + (outward ? 15 : -15), "text-anchor": outward ? "start" : "end" };
  return [
    mark.text({ x: left + 6, y: y + 20, ...(name.includes(": ") ? bold : {}), ...halo }, name),
    mark.rect({ x: Math.min(stop, one), y: y + 30, width: Math.max(1, Math.abs(stop - one)), height: 20, ...fill }),
    mark.text({ ...beside, y: y + 45, fill: inkTextOf(i), ...bold, ...halo }, words),
    grip(stop, y + 40),
  ];
}

// What is left of the peak rate: from the sum of all times to the longest one alone.
function speedBar([from, to], { left, right, bottom }, width) {
  const y = bottom + 62;
  const place = (share) => left + share * (right - left);
  const note = width < 480 ? "" : ": nothing overlaps, to everything overlaps";
  const whole = { y, height: 18 };
  const may = { x: place(from), width: Math.max(1, place(to) - place(from)) };
  return [
    mark.text({ x: left, y: y - 10 }, `share of the peak rate: ${percent(from)} to ${percent(to)}${note}`),
    mark.rect({ ...whole, x: left, width: right - left, fill: "none", stroke: ink.line }),
    mark.rect({ ...whole, x: left, width: place(from) - left, fill: ink.fourth }),
    mark.rect({ ...whole, ...may, fill: ink.fourth, "fill-opacity": 0.35, stroke: ink.fourth, "stroke-dasharray": "3 2" }),
    [0, 0.5, 1].map((share) =>
      mark.text({ x: place(share), y: y + 36, ...soft, ...anchorOf(share, [0, 1]) }, percent(share)),
    ),
  ];
}

// The variable behind the bar that was taken goes to the value whose bar ends nearest to the pointer.
function drag(spec, state, seen, width, { x, from }) {
  const box = boxOf(spec, width);
  const wanted = Math.log(acrossOf(spec, box).invert(x));
  const held = clamp(Math.floor((from.y - TOP) / ROW), 0, spec.curves.length - 1);
  const name = spec.grips[held];
  const { values } = spec.controls.find((control) => control.name === name);
  const headroom = valuesAt(spec, state)(spec.curves[held].js);
  const off = values.map((value) => Math.abs(Math.log(headroom({ [name]: value })) - wanted));
  return { [name]: values[off.indexOf(Math.min(...off))] };
}

export default widget({ hint: HINT, view, draw, drag, readout: equationRows });
