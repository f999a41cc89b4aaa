// A mesh of axes of two places, the outermost first: who is in a sum, and who holds which piece.

const SIZE = 2;

const placesOf = (axes, rank) =>
  Object.fromEntries(axes.map((axis, i) => [axis, Math.floor(rank / SIZE ** (axes.length - 1 - i)) % SIZE]));

// The ranks that differ from this one along the axes that are added over, and nowhere else.
function groupOf(axes, at, added) {
  const own = placesOf(axes, at);
  return Array.from({ length: SIZE ** axes.length }, (_, rank) => rank).filter((rank) => {
    const other = placesOf(axes, rank);
    return axes.every((axis) => added[axis] || own[axis] === other[axis]);
  });
}

// Which piece a rank holds: its places along the axes that cut the weight.
function pieceOf(axes, kinds, rank) {
  const places = placesOf(axes, rank);
  return axes
    .filter((axis) => kinds[axis] === "pieces")
    .reduce((number, axis) => SIZE * number + places[axis], 0);
}

const ranksOf = (axes, test) => SIZE ** axes.filter(test).length;
