// Left to right the steps of a ring, each rank's work in it as a bar; below, the mask of the whole
// sequence, with the part that one step computes.

const HINT =
  "Press a step in the upper figure, or move the slider, to see which part of the mask it is.";

const pale = (share) => ({ fill: ink.fourth, "fill-opacity": share });

function view(spec, { P, layout, causal, step }) {
  const work = causal ? spec.work[layout][P] : fullWork(P);
  const path = lastEnd(work);
  const [over, busy] = [significant(path, 3), busyShare(work)];
  return {
    names: { path },
    work,
    owners: spec.owners[layout][P],
    rows: [
      ["the last step is over after", `${over} of ${P} blocks`],
      ["share of the ranks' time that is work", `${Math.round(100 * busy)} %`, busy],
      ["step shown in the mask", `${step}`],
    ],
    said:
      `${sentence(spec.layouts[layout])}, ${causal ? "causal" : "no mask"}, ` +
      `${P} ranks: over after ${over} of ${P} blocks of time, ` +
      `${significant(P / path, 3)} times as fast as without a mask.`,
  };
}

const draw = (...given) => [drawSteps(...given), drawMask(...given)];

function drawSteps(spec, { P, step: chosen }, { work, names }, width) {
  const starts = stepTimes(work);
  const [left, right, row] = [34, width - 8, P > 8 ? 14 : 22];
  const across = scaleOf(0, P, "linear", left, right);
  const height = P * row + 44;
  const columns = work.map((shares, t) => {
    const [x, wide] = [across(starts[t]), across(starts[t + 1]) - across(starts[t])];
    const box = { x, y: 17, width: wide, height: P * row + 2, stroke: ink.line };
    const bars = shares.map((share, rank) => {
      const bar = { x: x + 0.5, y: 20 + rank * row, height: row - 4, rx: 2, fill: ink.forward };
      return mark.rect({ ...bar, width: Math.max(0, across(share) - left - 1) });
    });
    return mark.g(
      { set: { step: t }, class: "dt-ring-step" },
      mark.rect({ ...box, ...pale(t === chosen ? 0.22 : 0) }),
      bars,
      wide > 11 ? mark.text({ x: x + wide / 2, y: 12, ...soft, ...middle }, t) : null,
    );
  });
  const ranks = work.map((_, rank) =>
    rank % (P > 8 ? 2 : 1)
      ? null
      : mark.text({ x: left - 8, y: 22 + rank * row + row / 2, ...soft, ...end }, rank),
  );
  const [floor, over] = [height - 24, across(names.path)];
  return {
    height,
    label: `Work of ${P} ranks in ${P} steps; the last is over after ${significant(names.path, 3)}.`,
    marks: [
      mark.text({ x: 2, y: 12, ...soft }, "step"),
      columns,
      ranks,
      mark.line({ x1: left, x2: right, y1: floor, y2: floor, stroke: ink.soft }),
      mark.line({ x1: over, x2: over, y1: 14, y2: floor + 4, stroke: ink.text, "stroke-width": 2 }),
      mark.text({ x: right, y: height - 8, ...soft, ...end }, `time: ${P} blocks`),
      mark.text({ x: 2, y: height - 8, ...soft }, "rank"),
    ],
  };
}

function drawMask(spec, { P, causal, step }, { owners }, width) {
  const side = Math.min(width - 44, 300);
  const cell = side / owners.length;
  const [left, top] = [38, 34];
  const cells = owners.flatMap((query, i) =>
    owners.slice(0, causal ? i + 1 : owners.length).map((key, j) => {
      const [x, y] = [left + j * cell, top + i * cell];
      const look = { ...pale(stepOf(query, key, P) === step ? 1 : 0.16), stroke: ink.paper };
      return causal && i === j
        ? mark.path({ d: `M${x} ${y} l${cell} ${cell} h${-cell} z`, ...look })
        : mark.rect({ x, y, width: cell, height: cell, ...look });
    }),
  );
  const small = { ...soft, "font-size": 11.5 };
  const sparse = Math.ceil(12 / cell);
  const names = owners.map((owner, i) => {
    const place = (i + 0.5) * cell;
    return i % sparse
      ? null
      : [
          mark.text({ x: left - 5, y: top + place + 3.5, ...small, ...end }, owner),
          mark.text({ x: left + place, y: top - 4, ...small, ...middle }, owner),
        ];
  });
  const edge = { x: left, y: top, width: side, height: side, fill: "none", stroke: ink.soft };
  const whose = width < 480 ? "" : ": whose they are";
  const words = `queries down, keys across${whose}; dark: step ${step}`;
  return {
    height: side + top + 6,
    label: `The mask in pieces; step ${step} is marked.`,
    marks: [mark.text({ x: 2, y: 13, ...soft }, words), cells, mark.rect(edge), names],
  };
}

export default widget({
  hint: HINT,
  view,
  draw,
  player: { name: "step", unit: "step", every: 700, last: (spec, { P }) => P - 1 },
  changed: (spec, state, change) => ("P" in change ? { step: 0 } : {}),
});
