// Ranks as rows, layers as columns; in each cell weights, gradients and optimizer state as strips
// whose areas are bytes. The reader steps through the actions of one training step.

const HINT =
  "Areas are bytes; hatched is a gradient of the rank's own samples only, or a weight that is old. " +
  "A whole hides the rank's own part of it, which counts, too.";
const [LEFT, TOP, BETWEEN] = [52, 26, 10];
const KINDS = [["forward", "weights"], ["backward", "gradients"], ["weight", "optimizer state"]];

const gb = (bytes) => formatQuantity(bytes, "B", 3);
const countOf = (spec, state) => zeroRun(spec, state).actions.length;
const stagesOf = (spec) => spec.controls.find(({ name }) => name === "zero").words;

function view(spec, state) {
  const { zero, ranks, micro_batches: batches, done } = state;
  const bytes = zeroBytes(spec, state);
  const stages = stagesOf(spec);
  const all = stages.map((_, other) => zeroValues(spec, { ...state, zero: other }));
  const { peak, total } = all[zero];
  const action = zeroRun(spec, state).actions[done - 1];
  const words = action ? zeroWords(action, zero, batches > 1) : "before the step, no gradients yet";
  const [held, sent] = [bytes.held[done], bytes.sent[done]];
  const most = Math.max(...all.map((one) => one.total));
  const at = `action ${done} of ${countOf(spec, state)}`;
  return {
    names: all[zero],
    rows: [
      [at, words],
      [`a rank holds, of at most ${gb(peak)}`, gb(held), held / all[0].peak],
      [`a rank has sent, of ${gb(total)}`, gb(sent), most ? sent / most : 0],
      ...all.map((one, i) => [stages[i], `≤ ${gb(one.peak)} held, ${gb(one.total)} sent`]),
    ],
    said:
      `${sentence(stages[zero])}, ${ranks} ranks, ${at}: ${words}. ` +
      `A rank holds ${gb(held)} and has sent ${gb(sent)}; ` +
      `data parallelism holds ${gb(all[0].peak)} and sends ${gb(all[0].total)} a step.`,
  };
}

function draw(spec, state, seen, width) {
  const { ranks, done, zero } = state;
  const run = zeroRun(spec, state);
  const column = (width - LEFT) / spec.units.length;
  const perByte = (ranks > 4 ? 42 : 68) / spec.parts.reduce((a, b) => a + b, 0);
  const row = (ranks > 4 ? 42 : 68) + 16;
  const [size, letter] = [Math.max(...spec.units), run.gradients[done]];
  const bottom = TOP + ranks * row;
  const key = KINDS.map(([look, words], i) => [look, `${words}, ${spec.parts[i]} B`]);
  const everyRank = Array.from({ length: ranks }, (_, rank) => rank);
  return {
    height: bottom + (width < 560 ? 50 : 30),
    label: `What each of ${ranks} ranks holds of ${spec.units.length} layers.`,
    marks: [
      spec.units.map((unit, u) => {
        const x = LEFT + u * column;
        const wide = ((column - BETWEEN) * unit) / size;
        const gradient = letter[u] === "s" ? "sum" : letter[u];
        const letters = [run.weights[done][u], gradient, zero ? "p" : "w"];
        const busy = busyIn(run.actions[done - 1], u);
        const line = { stroke: ink.communicationText, "stroke-width": 1.6, fill: "none" };
        const ring = { x: x - 3, width: wide + 6, height: row - 8, rx: 4, ...line };
        return [
          nameOf(run.actions[done - 1], u, x + (column - BETWEEN) / 2),
          everyRank.map((rank) => [
            busy ? mark.rect({ ...ring, y: TOP + rank * row - 3 }) : null,
            cellOf(spec, letters, rank, ranks, { x, y: TOP + rank * row, wide, perByte }),
          ]),
        ];
      }),
      everyRank.map((rank) =>
        mark.text({ x: 0, y: TOP + rank * row + row / 2 - 4, ...soft }, `rank ${rank}`),
      ),
      ganttKey(key, width < 560 ? 0 : LEFT, bottom + 16, width),
    ],
  };
}

const busyIn = (action, unit) => Boolean(action) && (action[1] === unit || action[1] < 0);

function nameOf(action, unit, x) {
  const busy = busyIn(action, unit);
  const look = busy ? { ...bold, fill: ink.communicationText } : soft;
  const words = busy && action[1] >= 0 ? `${action[0]} ${unit}` : `layer ${unit}`;
  return mark.text({ x, y: 15, ...look, "font-size": 12.5, ...middle }, words);
}

// Weights, gradients and optimizer state of one layer on one rank, from the top.
function cellOf(spec, letters, rank, ranks, { x, y, wide, perByte }) {
  let top = y;
  return letters.map((letter, kind) => {
    const tall = perByte * spec.parts[kind];
    const at = { y: top, height: tall - 1 };
    const fill = LOOKS[KINDS[kind][0]].fill;
    top += tall;
    const strips = zeroStrips(letter, rank, ranks).map(([from, to, complete]) => {
      const box = { ...at, x: x + from * wide, width: (to - from) * wide };
      const hatch = { d: slant(box, 6), stroke: fill, "stroke-width": 2, fill: "none" };
      return complete ? mark.rect({ ...box, fill }) : mark.path(hatch);
    });
    return [mark.rect({ ...at, x, width: wide, fill: ink.text, "fill-opacity": 0.06 }), strips];
  });
}

// Another step keeps its place: the same share of its actions.
function changed(spec, state, change, before) {
  return { done: Math.round((before.done / countOf(spec, before)) * countOf(spec, state)) };
}

export default widget({
  hint: HINT,
  view,
  draw,
  changed,
  player: { name: "done", unit: "action", every: 700, last: countOf },
});
