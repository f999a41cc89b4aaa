// Two matrices, cut by the reader: who holds which part of everything, and what must be sent.

const HINT =
  "One colour and letter is one rank. A dashed outline is a rank's summand, which covers the " +
  "whole matrix.";
const MADE = { columns: "columns", rows: "sums", undivided: "all" };
const TAKEN = { columns: "all", rows: "columns", undivided: "all" };

const waysOf = (spec, name, way) => {
  const { values, words } = spec.controls.find((one) => one.name === name);
  return words[values.indexOf(way)];
};

function view(spec, { first, second, P }) {
  const steps = spec.steps[`${first} ${second} ${P}`];
  const collectives = steps.filter(({ forward }) => forward !== "nothing").length;
  const [ahead, back] = [0, 1].map((way) => steps.reduce((sum, { bytes }) => sum + bytes[way], 0));
  const [sentAhead, sentBack] = [ahead, back].map((bytes) => formatQuantity(bytes, "B", 3));
  const sent = (what, bytes) =>
    what === "nothing" ? what : `${what}, ${formatQuantity(bytes, "B", 3)}`;
  return {
    names: {
      divided: [first, second].filter((way) => way !== "undivided").length,
      collectives,
      sent: ahead + back,
    },
    rows: [
      ...steps.map(({ place, forward, backward, bytes }) => [
        place,
        `forward ${sent(forward, bytes[0])} · backward ${sent(backward, bytes[1])}`,
      ]),
      ["each rank sends", `forward ${sentAhead} · backward ${sentBack}`],
    ],
    said:
      `First matrix ${waysOf(spec, "first", first)}, second ${waysOf(spec, "second", second)}: ` +
      `${collectives} collective${collectives === 1 ? "" : "s"} forward, ` +
      `${sentAhead} sent forward and ${sentBack} backward.`,
  };
}

// X W1 = Z, gelu(Z) W2 = Y, as boxes: how each lies on the ranks follows from the two cuts.
function draw(spec, { first, second, P }, seen, width) {
  const boxes = [
    ["X", TAKEN[first], 1, 1.5],
    ["W₁", first, 2.4, 1],
    ["Z", MADE[first], 2.4, 1.5],
    ["gelu(Z)", TAKEN[second], 2.4, 1.5],
    ["W₂", second, 1, 2.4],
    ["Y", MADE[second], 1, 1.5],
  ];
  const gap = width < 480 ? 8 : 26;
  const unit = (width - gap * (boxes.length + 1)) / boxes.reduce((all, [, , w]) => all + w, 0);
  const [top, center] = [26, 26 + 1.2 * unit];
  let left = gap;
  return {
    height: top + 2.4 * unit + 16,
    label: boxes.map(([name, how]) => `${name}: ${wordsOf(how)}`).join("; "),
    marks: boxes.map(([name, how, w, tall]) => {
      const box = { x: left, y: center - (tall * unit) / 2, width: w * unit, height: tall * unit };
      left += w * unit + gap;
      return [
        mark.rect({ ...box, fill: "none", stroke: ink.line }),
        partsOf(how, P, box),
        mark.text({ x: box.x + box.width / 2, y: 14, ...middle }, name),
      ];
    }),
  };
}

const wordsOf = (how) =>
  ({ all: "every rank has all", undivided: "every rank has all", sums: "summands" })[how] ??
  `by ${how}`;

export default widget({ hint: HINT, view, draw });
