// Collectives as arrows between placements, played on counted contributions. A table says which rank
// holds which chunk; held[rank][chunk] counts contributors, or is null where a rank holds nothing.

const heldBefore = (table) =>
  table.map((row, rank) => row.map((on) => (on ? table.map((_, k) => Number(k === rank)) : null)));

// Whoever holds a chunk after it has the sum over all who held it before.
function collected(before, after, held) {
  const ranks = [...before.keys()];
  const sums = before[0].map((_, chunk) =>
    ranks.map((k) =>
      ranks.reduce((sum, rank) => sum + (before[rank][chunk] ? held[rank][chunk][k] : 0), 0),
    ),
  );
  return after.map((row) => row.map((on, chunk) => (on ? sums[chunk] : null)));
}

// The states before, between and after the arrows; null where one does not fit behind the other.
function played(tables, arrows) {
  const states = [heldBefore(tables[arrows[0].before])];
  for (const [i, { before, after }] of arrows.entries()) {
    if (i && arrows[i - 1].after !== before) return null;
    states.push(collected(tables[before], tables[after], states[i]));
  }
  return states;
}

// What two arrows are together: from where, to where, and how many times.
function together(tables, [first, then]) {
  if (first.after !== then.before) return null;
  const times = tables[first.after].filter((row) => row[0]).length;
  return { before: first.before, after: then.after, times };
}

// Of a sum: its letters, with a factor if every letter counts as often.
function letters(counts) {
  if (!counts) return "";
  const names = counts.flatMap((count, k) => (count ? ["abcdef"[k]] : [])).join("");
  const most = Math.max(...counts);
  return most > 1 ? `${most}·${names}` : names;
}
