// A matrix as a box, divided among ranks: which part each holds.

const LETTERS = "abcdefgh";

function partsOf(how, P, box) {
  const ranks = Array.from({ length: P }, (_, i) => i);
  if (how === "all" || how === "undivided") return nameOf(`a…${LETTERS[P - 1]}`, box);
  if (how === "sums") return [ranks.map((i) => summand(i, P, box)), nameOf("Σ", box)];
  return ranks.map((i) => {
    const piece =
      how === "columns"
        ? { ...box, x: box.x + (i * box.width) / P, width: box.width / P }
        : { ...box, y: box.y + (i * box.height) / P, height: box.height / P };
    // Where parts are too thin for letters, colours say whose they are.
    const thin = Math.min(piece.width, piece.height) < 9;
    return [
      mark.rect({ ...piece, fill: inkOf(i), "fill-opacity": 0.3, stroke: inkOf(i) }),
      thin ? null : nameOf(LETTERS[i], piece),
    ];
  });
}

function summand(i, P, box) {
  const shift = (i * Math.min(14, box.width / 3)) / P;
  const place = { x: box.x + shift, y: box.y + shift };
  const size = { width: box.width - 2 * shift, height: box.height - 2 * shift };
  return mark.rect({ ...place, ...size, fill: "none", stroke: inkOf(i), "stroke-dasharray": "4 3" });
}

const nameOf = (words, { x, y, width, height }) =>
  mark.text({ x: x + width / 2, y: y + height / 2 + 4, ...soft, ...middle }, words);
