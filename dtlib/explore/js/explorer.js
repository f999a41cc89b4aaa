// Curves over one variable: sliders, a probe on the axis, and the formulas with live numbers.

const HINT =
  "Drag in the figure, or Tab to the probe and the sliders and use the arrow keys; " +
  "Page Up and Page Down make larger steps.";
const WIDE = 560;

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const { x, y } = spec;
  const model = formulaModel(spec, [x, ...spec.sliders]);
  const { state, curves } = model;
  const guides = spec.guides.map((g) => ({ ...g, at: model.compile(g.js) }));
  const marks = spec.marks.map((m) => ({ ...m, at: model.compile(m.js) }));
  const first = x.values[0];
  const last = x.values[x.values.length - 1];
  const valueAt = (f, at = state[x.name]) => model.call(f, { [x.name]: at });
  const nameWidth = clamp(Math.max(...curves.map((c) => c.label.length)) * 8 + 22, 90, 150);
  let range = [...y.range];

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const probe = h("input", {
    type: "range",
    class: "dt-probe",
    min: 0,
    max: x.values.length - 1,
    step: 1,
    value: x.index,
    "aria-label": `Probe: ${x.label}, ${x.plain}`,
    oninput: () => {
      state[x.name] = x.values[probe.value];
      update();
    },
  });
  const sliders = spec.sliders.map((c) =>
    slider(c, (value) => {
      state[c.name] = value;
      update();
    }),
  );
  page.controls.append(...sliders.map((control) => control.element));
  const rows = formulaRows(page, model);

  let width = 0;
  const svg = s("svg", { class: "dt-plot", role: "img" });
  page.stage.append(probe, svg);
  const clip = uniqueId("clip");
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    model.restore();
    range = [...y.range];
    probe.value = x.index;
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    rows.unpin();
    update();
  }

  function update() {
    if (width) draw();
    rows.show(curves.map((c) => formatQuantity(valueAt(c.at), y.unit, 3)));
    probe.setAttribute("aria-valuetext", formatQuantity(state[x.name], x.unit, 3));
    page.task?.set(model.taskMet());
    page.say(summary());
  }

  function summary() {
    const found = curves.map((c) => [c.label, valueAt(c.at)]).sort((a, b) => a[1] - b[1]);
    const values = found.map(([label, v]) => `${label} ${formatQuantity(v, y.unit, 3)}`).join(", ");
    const [least, most] = [found[0], found[found.length - 1]];
    const said = `At ${model.where()}: ${values}.`;
    if (found.length === 1 || !(least[1] > 0)) return said;
    const ratio = `${formatQuantity(most[1] / least[1], "", 3)} times`;
    const more = y.unit === "s" ? `takes ${ratio} as long as` : `is ${ratio}`;
    return `${said} ${sentence(most[0])} ${more} ${least[0]}.`;
  }

  function plotBox() {
    const right = width - (width >= WIDE ? nameWidth : 14);
    return { left: 62, right, top: 46, bottom: clamp(width * 0.5, 230, 350) + 46 };
  }
  const across = (box) => scaleOf(first, last, x.scale, box.left, box.right);

  function draw() {
    const box = plotBox();
    const height = box.bottom + 54;
    const xs = across(box);
    const samples = samplesOf(xs, box);
    const lines = curves.map((c) => samples.map((at) => valueAt(c.at, at)));
    grow(lines.flat());
    const up = scaleOf(...range, y.scale, box.bottom, box.top);
    const path = (values) => pathOf(samples.map(xs), values.map(up));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute(
      "aria-label",
      `${y.label} against ${x.label}: ${curves.map((c) => c.label).join(", ")}.`,
    );
    const guideLines = guides.map((g) => samples.map((at) => valueAt(g.at, at)));
    svg.replaceChildren(
      ...[
        s(
          "defs",
          {},
          s(
            "clipPath",
            { id: clip },
            s("rect", {
              x: box.left,
              y: box.top,
              width: box.right - box.left,
              height: box.bottom - box.top,
            }),
          ),
        ),
        axes(box, xs, up),
        s(
          "g",
          { "clip-path": `url(#${clip})` },
          guideLines.map((values) => s("path", { class: "dt-guide", d: path(values) })),
          curves.map((c, i) =>
            s("path", { class: `dt-curve dt-c${i}`, "data-key": c.key, d: path(lines[i]) }),
          ),
        ),
        guides.map((g, i) => guideLabel(g, guideLines[i], box, up)),
        marks.map((m) => markLine(m, box, xs, up)),
        endLabels(box, lines, up),
        probeLine(box, xs, up),
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
    rows.highlightAgain();
  }

  function samplesOf(xs, box) {
    if (x.scale === "powers of two") return x.values;
    const count = Math.round((box.right - box.left) / 3);
    const even = Array.from({ length: count + 1 }, (_, i) =>
      xs.invert(box.left + (i * (box.right - box.left)) / count),
    );
    const inner = marks.map((m) => valueAt(m.at)).filter((v) => v > first && v < last);
    return [...even, ...inner].sort((a, b) => a - b);
  }

  // The vertical axis only grows, so that a curve is seen to move; reset brings it back.
  function grow(values) {
    const found = values.filter((v) => Number.isFinite(v) && (y.scale === "linear" || v > 0));
    const [low, high] = [Math.min(...found), Math.max(...found)];
    if (high > range[1]) range[1] = high * (y.scale === "linear" ? 1.08 : 1.5);
    if (low < range[0]) range[0] = y.scale === "linear" ? low : low / 1.5;
  }

  function axes(box, xs, up) {
    const below = quantityTicks(first, last, x.scale, (box.right - box.left) / 64, x.unit);
    const beside = quantityTicks(...range, y.scale, (box.bottom - box.top) / 34, y.unit);
    const title = `${x.label} ${x.plain} →`;
    return plotAxes(box, xs, up, { x, y, below, beside, title, drop: 28 });
  }

  function guideLabel(guide, values, box, up) {
    const at = clamp(up(values[Math.round(values.length * 0.04)]), box.top + 12, box.bottom - 2);
    return s("text", { class: "dt-guide-label dt-halo", x: box.left + 16, y: at - 6 }, guide.label);
  }

  // A mark's name stands at the top or the bottom of its line, where it crosses no curve.
  function markLine(mark, box, xs, up) {
    const at = valueAt(mark.at);
    const px = xs(at);
    if (!(px >= box.left && px <= box.right)) return null;
    const words = [mark.label, `${mark.plain} = ${formatQuantity(at, x.unit, 3)}`.trim()];
    const text = width >= WIDE ? [words.join(" ")] : words;
    const size = 12 + 6.8 * Math.max(...text.map((line) => line.length));
    const tall = 16 * text.length;
    const corners = [1, -1].flatMap((side) =>
      [box.bottom - tall - 6, box.top + 2].map((top) => ({ side, top })),
    );
    const probed = (xs(state[x.name]) - px) / size;
    const crossed = ({ side, top }) =>
      (probed * side > 0 && probed * side < 1.1) ||
      [0.02, 0.25, 0.5, 0.75, 1].some((part) => {
        const edge = px + side * size * part;
        if (edge < box.left || edge > box.right) return true;
        return curves.some((c) => {
          const py = up(valueAt(c.at, xs.invert(edge)));
          return py > top - 4 && py < top + tall + 4;
        });
      });
    const { side, top } =
      corners.find((corner) => !crossed(corner)) ?? corners[px > width / 2 ? 3 : 1];
    return s(
      "g",
      { class: "dt-mark" },
      s("line", { x1: px, x2: px, y1: box.top, y2: box.bottom }),
      text.map((line, i) =>
        s(
          "text",
          {
            class: "dt-halo",
            x: px + 6 * side,
            y: top + 13 + 16 * i,
            "text-anchor": side > 0 ? "start" : "end",
          },
          line,
        ),
      ),
    );
  }

  // The curves' names at their right ends, moved apart. A narrow figure names them at the probe.
  function endLabels(box, lines, up) {
    if (width < WIDE) return [];
    const ends = lines
      .map((line, i) => ({
        i,
        at: clamp(up(line[line.length - 1]), box.top, box.bottom),
      }))
      .sort((a, b) => a.at - b.at);
    const placed = spread(
      ends.map(({ at }) => at),
      19,
      box.bottom - 8,
    );
    return ends.map(({ i, at }, k) =>
      s(
        "g",
        { class: `dt-label dt-c${i}`, "data-key": curves[i].key },
        s("path", {
          class: "dt-leader",
          d: `M${box.right + 2} ${at}L${box.right + 10} ${placed[k]}`,
        }),
        s("text", { x: box.right + 14, y: placed[k] + 4 }, curves[i].label),
      ),
    );
  }

  // The probe: a line with a dot and the value on every curve, and a handle on the axis.
  function probeLine(box, xs, up) {
    const px = xs(state[x.name]);
    const dots = curves
      .map((c, i) => ({ i, value: valueAt(c.at), at: up(valueAt(c.at)) }))
      .filter(({ at }) => at >= box.top - 1 && at <= box.bottom + 1)
      .sort((a, b) => a.at - b.at);
    const placed = spread(
      dots.map(({ at }) => at + 14),
      17,
      box.bottom - 6,
    );
    const room = Math.max(px - box.left, box.right - px) - 16;
    const words = dots.map(({ i, value }) => {
      const number = formatQuantity(value, y.unit, 3);
      const named = `${curves[i].label} ${number}`;
      return width < WIDE && curves.length > 1 && 6.8 * named.length < room ? named : number;
    });
    const turned = px + 16 + 7.4 * Math.max(0, ...words.map((word) => word.length)) > box.right;
    return s(
      "g",
      { class: "dt-probe-line" },
      s("line", { x1: px, x2: px, y1: box.top - 6, y2: box.bottom }),
      flag(`${x.plain} = ${formatQuantity(state[x.name], x.unit, 3)}`, px, box.top - 28, box),
      dots.map(({ i, at }, k) =>
        s(
          "g",
          { class: `dt-point dt-c${i}`, "data-key": curves[i].key },
          s("circle", { class: "dt-dot", cx: px, cy: at, r: 5 }),
          s(
            "text",
            {
              class: "dt-halo",
              x: px + (turned ? -10 : 10),
              y: placed[k] + 4,
              "text-anchor": turned ? "end" : "start",
            },
            words[k],
          ),
        ),
      ),
      s("circle", { class: "dt-handle", cx: px, cy: box.bottom, r: 9 }),
      s("path", {
        class: "dt-grip",
        d: `M${px - 2.5} ${box.bottom - 3.5}v7M${px + 2.5} ${box.bottom - 3.5}v7`,
      }),
    );
  }

  onDrag(
    svg,
    (px) => {
      const box = plotBox();
      probe.value = nearest(x.values, across(box).invert(clamp(px, box.left, box.right)), x.scale);
      state[x.name] = x.values[probe.value];
      update();
    },
    () => probe.focus({ preventScroll: true }),
  );

  update();
  return stop;
}

export default { render };
