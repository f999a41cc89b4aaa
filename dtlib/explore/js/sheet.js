// A sheet of formulas, computed: the same numbers as dtlib.formulas.sheet.

// A count in words, anything else with its unit: the same text as dtlib.formulas.sheet.readable.
function readable(value, unit, digits = 3) {
  if (unit === "" && Number.isFinite(value)) {
    for (const [size, word] of [
      [1e12, "trillion"],
      [1e9, "billion"],
      [1e6, "million"],
    ]) {
      if (Math.abs(value) >= size * (1 - 1e-12))
        return `${formatQuantity(value / size, "", digits)} ${word}`;
    }
  }
  return formatQuantity(value, unit, digits);
}

// The sheet as functions: `evaluate(inputs)` gives the value of every name; a line that is absent
// counts nothing.
function sheetModel({ inputs, fixed, lines }) {
  const compiled = lines.map((l) =>
    l.sum ? null : new Function(...l.params, `"use strict"; return ${l.js};`),
  );
  const feed = (found, x) => (typeof x === "number" ? x : found[x]);
  const start = Object.fromEntries(inputs.map((c) => [c.name, c.values[c.index]]));
  return {
    start,
    evaluate(state, absent = new Set()) {
      const found = { ...Object.fromEntries(fixed.map((g) => [g.name, g.value])), ...state };
      lines.forEach((l, i) => {
        if (absent.has(l.key)) found[l.key] = 0;
        else
          found[l.key] = l.sum
            ? l.sum.reduce((sum, part) => sum + found[part], 0)
            : compiled[i](...l.feeds.map((x) => feed(found, x)));
      });
      return found;
    },
    // The values of a line's own parameters, and of the formulas that it calls with them.
    places(l, found) {
      const own = l.feeds.map((x) => feed(found, x));
      return Object.fromEntries(
        l.places.map(([name, js]) => [
          name,
          new Function(...l.params, `"use strict"; return ${js};`)(...own),
        ]),
      );
    },
  };
}

// The name of a sum's largest part.
const largestOf = (line, found) =>
  line.sum.reduce((best, part) => (found[part] > found[best] ? part : best));
