// What a bet and its answer share: their line, its words, and what the browser keeps of a bet.

const INSET = 18;
const ROW = 22;
const DIGITS = 6; // as many as anybody writes; what the line gives has two
const SURE = { 2: "within a factor of 2", 10: "within a factor of 10", 0: "no idea" };

const textOf = ({ base, unit, size }, value, digits = DIGITS) =>
  base
    ? formatQuantity(value * size, base, digits)
    : `${formatQuantity(value, "", digits)}${unit === "×" ? "" : " "}${unit}`.trim();

// A tick needs no word that the field below says already.
const tickOf = (spec, value) =>
  spec.base || "%×".includes(spec.unit) ? textOf(spec, value, 2) : formatQuantity(value);

const acrossOf = ({ low, high, scale }, width) => scaleOf(low, high, scale, INSET, width - INSET);

const kept = {
  as: "dtlib-bet:",
  read: (spec, bet) => ({
    value: bet?.value ?? null,
    sure: bet?.sure ?? null,
    settled: bet ? (bet.skipped ? "skipped" : "placed") : "",
  }),
  write: ({ unit }, { value, sure, settled }) =>
    ({ "": null, placed: { value, unit, ...(sure === null ? {} : { sure }) }, skipped: { skipped: true, unit } })[settled],
};

const anchorOf = (spec) =>
  spec.anchor
    ? [
        {
          value: spec.anchor,
          text: [spec.anchor_label, textOf(spec, spec.anchor, 2)].filter(Boolean).join(": "),
          look: soft,
          sign: (x, y) => mark.path({ d: `M${x} ${y - 1}l-6 -10h12z`, fill: ink.soft }),
        },
      ]
    : [];

const betOf = (value, text) => ({
  value,
  text,
  look: { fill: ink.communicationText, ...bold },
  sign: (x, y) =>
    mark.circle({ class: "dt-bet-thumb", cx: x, cy: y, r: 10, fill: ink.communication, stroke: ink.communicationText, "stroke-width": 2 }),
});

// The line with its ticks; every sign upon it has a row of its own for its words.
function lineDrawing(spec, width, rows, signs) {
  const across = acrossOf(spec, width);
  const y = 18 + ROW * rows;
  const held = (x, text) => {
    const half = Math.min(3.8 * text.length, width / 2);
    return clamp(x, half, width - half);
  };
  const values = ticks(spec.low, spec.high, spec.scale, width / 66);
  return {
    height: y + 42,
    marks: [
      mark.line({ x1: INSET, x2: width - INSET, y1: y, y2: y, stroke: ink.soft, "stroke-width": 1.5 }),
      values.map((v) => [
        mark.line({ class: "dt-bet-tick", x1: across(v), x2: across(v), y1: y - 5, y2: y + 5, stroke: ink.soft }),
        mark.text({ x: held(across(v), tickOf(spec, v)), y: y + 34, ...soft, ...middle }, tickOf(spec, v)),
      ]),
      signs.map(({ value }, i) =>
        mark.line({ x1: across(value), x2: across(value), y1: ROW * i + 20, y2: y, stroke: ink.soft, "stroke-dasharray": "2 3" }),
      ),
      signs.map(({ value, text, look, sign }, i) => [
        sign(across(value), y),
        mark.text({ x: held(across(value), text), y: ROW * i + 15, ...middle, ...halo, ...look }, text),
      ]),
    ],
  };
}
