// The layouts of a run: which is chosen, which is best, which no other beats in time and memory.

const placeIn = ({ controls }, state) =>
  controls.reduce((place, { name, values }) => place * values.length + values.indexOf(state[name]), 0);

// What is chosen at a place: the other way round.
function choicesAt({ controls, fixed }, place) {
  const chosen = {};
  for (const { name, values } of [...controls].reverse()) {
    chosen[name] = values[place % values.length];
    place = Math.floor(place / values.length);
  }
  return { ...fixed, ...chosen };
}

// The rows by their place, the fastest that fits, and the Pareto front from the smallest up.
function cloudOf({ cloud, limit }) {
  const rows = cloud.map(([place, dp, seconds, bytes]) => ({ place, dp, seconds, bytes, fits: bytes <= limit }));
  const fitting = rows.filter(({ fits }) => fits);
  const sooner = (a, b) => a.seconds - b.seconds || a.bytes - b.bytes;
  const [best] = [...fitting].sort(sooner);
  const front = [];
  for (const row of [...rows].sort((a, b) => a.bytes - b.bytes || a.seconds - b.seconds))
    if (!front.length || row.seconds < front[front.length - 1].seconds) front.push(row);
  return { rows, fitting, best, front, at: new Map(rows.map((row) => [row.place, row])) };
}

// Of each control the values that make a layout of it, where the others stay.
function legalBeside(spec, state, { at }) {
  return spec.controls
    .map(({ name, label, values }) => [
      label,
      values.filter((value) => at.has(placeIn(spec, { ...state, [name]: value }))),
    ])
    .filter(([, values]) => values.length);
}
