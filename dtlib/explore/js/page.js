// What only the widgets beside the kit use: axes.

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
