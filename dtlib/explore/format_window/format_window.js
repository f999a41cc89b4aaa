// Above, numbers by their power of two, moved by the scale into a format's window; below, the worst
// relative error of rounding in each power of two.

const HINT =
  "Move the bits of the format and the scale. Blue bars keep all digits, hatched ones lose some, " +
  "vermilion ones become zero or infinite.";
const [FIRST, LAST] = [-46, 26]; // powers of two that are drawn

const windowOf = ({ exponent_bits: e, mantissa_bits: m }) => {
  const bias = 2 ** (e - 1) - 1;
  return { most: bias, least: 1 - bias, last: -bias - m };
};

function fateOf({ most, least, last }, at) {
  if (at > most) return "over";
  if (at >= least) return "kept";
  return at >= last ? "fewer" : "zero";
}

function view({ counts }, state) {
  const found = windowOf(state);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const shares = { kept: 0, fewer: 0, zero: 0, over: 0 };
  counts.forEach(([binade, count]) => {
    shares[fateOf(found, binade + state.power)] += count / total;
  });
  const share = (name) => formatQuantity(shares[name], "%", 2);
  const bits = 1 + state.exponent_bits + state.mantissa_bits;
  return {
    names: { ...shares, bits },
    total,
    rows: [
      ["keep all digits", share("kept")],
      ["lose some", share("fewer")],
      ["become zero", share("zero")],
      ["overflow", share("over")],
    ],
    said:
      `${bits} bits, ${state.exponent_bits} of them for the exponent, scale 2^${state.power}: ` +
      `${share("kept")} keep all digits, ${share("fewer")} lose some, ${share("zero")} become ` +
      `zero, ${share("over")} overflow.`,
  };
}

const LOOK_OF = {
  kept: { fill: ink.forward },
  fewer: { fill: ink.forward, "fill-opacity": 0.35, stroke: ink.forward, "stroke-dasharray": "2 2" },
  zero: { fill: ink.backward },
  over: { fill: ink.backward },
};

function worst({ most, least, last }, m, at) {
  if (at > most || at < last - 1) return 1;
  return at >= least ? 2 ** -(m + 1) : Math.min(1, 2 ** (least - at - m - 1));
}

function draw({ counts }, state, { total }, width) {
  const found = windowOf(state);
  const box = { left: 50, right: width - 12, top: 40, bottom: 190 };
  const low = { ...box, top: 236, bottom: 340 };
  const across = scaleOf(FIRST, LAST + 1, "linear", box.left, box.right);
  const most = Math.max(...counts.map(([, count]) => count)) / total;
  const up = scaleOf(0, most * 1.1, "linear", box.bottom, box.top);
  const error = scaleOf(2 ** -11, 1, "log", low.bottom, low.top);
  const inside = (at) => clamp(at, FIRST, LAST + 1);
  const span = (from, to, look) =>
    inside(to) > inside(from)
      ? mark.rect({ x: across(inside(from)), width: across(inside(to)) - across(inside(from)),
          y: box.top, height: low.bottom - box.top, ...look })
      : null;
  const bars = counts.map(([binade, count]) => {
    const at = binade + state.power;
    if (at < FIRST || at > LAST) return null;
    const [x, room] = [across(at), across(at + 1) - across(at)];
    const y = up(count / total);
    return mark.rect({ x: x + 0.5, width: Math.max(1, room - 1), y, height: box.bottom - y,
      ...LOOK_OF[fateOf(found, at)] });
  });
  const powers = Array.from({ length: LAST - FIRST + 1 }, (_, i) => FIRST + i);
  const xs = powers.flatMap((at) => [across(at), across(at + 1)]);
  const ys = powers.flatMap((at) => {
    const y = error(worst(found, state.mantissa_bits, at));
    return [y, y];
  });
  const named = powers.filter((at) => at % (width < 480 ? 20 : 10) === 0);
  return {
    height: 396,
    label:
      "Above, numbers by their power of two and the window of the format; below, the worst " +
      "relative error of rounding in each power of two.",
    marks: [
      span(found.least, found.most + 1, { fill: ink.fourth, "fill-opacity": 0.13 }),
      span(found.last, found.least, { fill: ink.fourth, "fill-opacity": 0.05 }),
      mark.text({ x: 4, y: 16 }, "share of the numbers, by power of two"),
      levels(ticks(0, most, "linear", 3), box.left, box.right, up, (v) => formatQuantity(v, "%")),
      bars,
      mark.text({ x: 4, y: 226, ...halo }, "worst relative error of rounding"),
      levels([2 ** -10, 2 ** -5, 1], low.left, low.right, error, (v) => formatQuantity(v, "%", 1)),
      mark.path({ d: pathOf(xs, ys), fill: "none", stroke: ink.backward, "stroke-width": 2 }),
      named.map((at) => mark.text({ x: across(at), y: 358, ...soft, ...middle }, `2^${at}`)),
      mark.text({ x: box.right, y: 386, ...end }, "size of the number, times the scale"),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
