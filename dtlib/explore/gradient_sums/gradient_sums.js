// Sixteen ranks, each with a gradient of one weight, and those that one rank has in its sum.

const HINT =
  "A letter is a piece of the weight: ranks with one letter hold the same numbers. A thick frame " +
  "is in the sum of the rank that is pressed. With the keyboard: Tab to the grid, arrow keys, Enter.";
const [HEAD, GAP, HIGH] = [24, 22, 46];

function view({ axes, kinds: all }, state) {
  const kinds = all[state.weight];
  const wrong = axes.filter((axis) => Boolean(state[axis]) !== (kinds[axis] === "terms"));
  const share = 1 / ranksOf(axes, (axis) => kinds[axis] === "terms" && !state[axis]);
  const mixed = ranksOf(axes, (axis) => kinds[axis] === "pieces" && state[axis]);
  const times = ranksOf(axes, (axis) => kinds[axis] === "the same" && state[axis]);
  const due = ranksOf(axes, (axis) => kinds[axis] === "terms");
  const over = axes.filter((axis) => state[axis]);
  const faults = [
    share < 1 ? `it has ${share * due} of the ${due} terms that are due` : "",
    mixed > 1 ? `it adds ${mixed} different pieces` : "",
    times > 1 ? `it counts each term ${times} times` : "",
  ].filter(Boolean);
  return {
    names: { right: wrong.length ? 0 : 1, due, share, mixed, times },
    kinds,
    group: groupOf(axes, state.at, state),
    rows: [
      ["terms in the sum", `${share * due} of ${due}`, share],
      ["different pieces added", `${mixed}`],
      ["times that each term is counted", `${times}`],
    ],
    said:
      `${state.weight}, added over ${over.join(", ") || "no axis"}: ` +
      `${faults.join("; ") || "all the terms that are due, each once, and nothing else"}.`,
  };
}

function draw({ axes }, { at }, { kinds, group }, width) {
  const columns = width < 480 ? 4 : 8;
  const cell = (width - 8) / columns;
  const rows = SIZE ** axes.length / columns;
  const box = (rank) => ({
    x: 4 + (rank % columns) * cell + 3,
    y: HEAD + Math.floor(rank / columns) * (HIGH + GAP) + 3,
    width: cell - 6,
    height: HIGH,
  });
  return {
    height: HEAD + rows * (HIGH + GAP),
    label: `${SIZE ** axes.length} ranks; ${group.length} of them are in the sum of rank ${at}.`,
    marks: [
      mark.text({ x: 4, y: 14, ...soft }, "each box a rank: its piece, and its place along pp dp cp tp"),
      Array.from({ length: rows * columns }, (_, rank) =>
        rankBox(rank, box(rank), { piece: pieceOf(axes, kinds, rank), inside: group.includes(rank), at, axes }),
      ),
    ],
  };
}

function rankBox(rank, box, { piece, inside, at, axes }) {
  const letter = String.fromCharCode(97 + piece);
  const places = Object.values(placesOf(axes, rank)).join(" ");
  const x = box.x + box.width / 2;
  const look = {
    fill: inkOf(piece), "fill-opacity": inside ? 0.5 : 0.12,
    stroke: inside ? ink.text : inkOf(piece), "stroke-width": inside ? 3.5 : 1,
  };
  const says = `rank ${rank}, piece ${letter}${inside ? ", in the sum" : ""}`;
  return mark.g(
    { set: { at: rank }, says, pressed: rank === at },
    mark.rect({ ...box, rx: 6, fill: ink.paper }),
    mark.rect({ ...box, rx: 6, ...look }),
    mark.text({ x, y: box.y + 19, ...middle, ...bold }, letter),
    mark.text({ x, y: box.y + 37, "font-size": 12, ...middle }, places),
    rank === at ? mark.text({ x, y: box.y + HIGH + 14, ...soft, ...middle }, "its sum") : null,
  );
}

export default widget({ hint: HINT, view, draw });
