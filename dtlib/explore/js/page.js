// What only the widgets beside the kit use: formulas with numbers in them, flags, axes.

// A pill with text, kept inside the plot.
function flag(text, x, top, box) {
  const half = text.length * 3.8 + 10;
  const middle = clamp(x, box.left + half - 10, box.right - half + 10);
  return [
    s("rect", { class: "dt-flag", x: middle - half, y: top, width: 2 * half, height: 22, rx: 11 }),
    s("text", { class: "dt-flag-text", x: middle, y: top + 15.5, "text-anchor": "middle" }, text),
  ];
}

// The axes of a plot: grid lines with values beside them, ticks with values `drop` below, titles.
function plotAxes(box, across, up, { x, y, below, beside, title, drop }) {
  const right = { x: box.right, "text-anchor": "end" };
  return s(
    "g",
    { class: "dt-axes" },
    beside.map((v) => [
      s("line", { class: "dt-grid", x1: box.left, x2: box.right, y1: up(v), y2: up(v) }),
      s(
        "text",
        { x: box.left - 8, y: up(v) + 4, "text-anchor": "end" },
        formatQuantity(v, y.unit),
      ),
    ]),
    s("line", { class: "dt-axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    below.map((v) => [
      s("line", {
        class: "dt-axis",
        x1: across(v),
        x2: across(v),
        y1: box.bottom,
        y2: box.bottom + 5,
      }),
      s(
        "text",
        { x: across(v), y: box.bottom + drop, "text-anchor": "middle" },
        formatQuantity(v, x.unit),
      ),
    ]),
    s("text", { class: "dt-axis-title", x: 4, y: 16 }, y.label),
    s("text", { class: "dt-axis-title", ...right, y: box.bottom + drop + 21 }, title),
  );
}
