// A message between two rows of a figure: an arrow beside a column, which leaves its `edge` at one
// height, is bent out to `bend`, and comes back to the edge at another.

function bentArrow(edge, bend, from, to) {
  const [side, round] = [Math.sign(bend - edge), (value) => value.toFixed(1)];
  const curve = [bend, from, bend, to, edge + side * 4, to].map(round).join(" ");
  return {
    d: `M${round(edge)} ${round(from)}C${curve}`,
    head: `M${round(edge)} ${round(to)}l${side * 6} -3.6v7.2z`,
  };
}

// A chunk on its way along the arrow, slow at both ends.
function onItsWay(edge, bend, from, to, moving, wanted) {
  const t = moving * moving * (3 - 2 * moving);
  const [x, y] = [edge + (bend - edge) * 3 * t * (1 - t), from + (to - from) * t * t * (3 - 2 * t)];
  const size = clamp(wanted, 6, 16);
  const box = { x: x - size / 2, y: y - size / 2, width: size, height: size, rx: 3 };
  return mark.rect({ class: "dt-token", ...box, fill: ink.communication, stroke: ink.paper });
}
