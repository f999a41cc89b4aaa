// Measured points, a curve that sliders bend, and the residuals: what the curve still gets wrong.

const HINT = "Tab to the sliders and use the arrow keys; Page Up and Page Down make larger steps.";
const MOST = 2; // a residual beyond twice as long, or half, is drawn at the border

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const { x, y, points } = spec;
  const model = formulaModel(spec, [x, ...spec.sliders]);
  const { state, curves } = model;
  const at = (v) => model.call(curves[0].at, { [x.name]: v });
  const task = { text: spec.text, found: spec.found };
  const page = frame(el, { title: spec.title, hint: `${HINT} ${spec.source}`, task, reset });
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
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    model.restore();
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    rows.unpin();
    update();
  }

  const ratios = () => points.map(([v, measured]) => at(v) / measured);
  const meanError = (found) => found.reduce((sum, r) => sum + Math.abs(r - 1), 0) / found.length;

  function update() {
    if (width) draw();
    const found = ratios();
    const error = meanError(found);
    const text = formatQuantity(error, "%", 3);
    rows.show([`mean error ${text}`]);
    page.task.set(error < spec.below);
    const worst = found.reduce((a, r) => (Math.abs(Math.log(r)) > Math.abs(Math.log(a)) ? r : a), 1);
    const [n] = points[found.indexOf(worst)] ?? points[0];
    const side = worst < 1 ? "fast" : "slow";
    const factor = formatQuantity(Math.max(worst, 1 / worst), "×", 3);
    page.say(
      `The mean error is ${text}. Worst at ${formatQuantity(n, x.unit, 3)}: ${factor} too ${side}.`,
    );
  }

  function draw() {
    const left = 62;
    const right = width - 18;
    const top = 34;
    const bottom = top + clamp(width * 0.42, 190, 300);
    const low = bottom + 96;
    const height = low + 54;
    const across = scaleOf(x.values[0], x.values[x.values.length - 1], x.scale, left, right);
    const up = scaleOf(...y.range, "log", bottom, top);
    const off = scaleOf(1 / MOST, MOST, "log", low, bottom + 26);
    const grid = Array.from({ length: 121 }, (_, i) => across.invert(left + (i * (right - left)) / 120));
    const inside = (v) => clamp(v, top, bottom);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute(
      "aria-label",
      `${y.label} against ${x.label}: ${points.length} measured points and the curve; below, curve over measured.`,
    );
    svg.replaceChildren(
      axes({ left, right, top, bottom, low }, across, up, off),
      s("path", {
        class: "dt-curve dt-c0",
        "data-key": "curve",
        d: pathOf(
          grid.map(across),
          grid.map((v) => inside(up(at(v)))),
        ),
      }),
      ...points.map(([v, measured]) =>
        s("circle", { class: "dt-fit-point", cx: across(v), cy: up(measured), r: 4 }),
      ),
      ...ratios().flatMap((r, i) => {
        const px = across(points[i][0]);
        const py = off(clamp(r, 1 / MOST, MOST));
        return [
          s("line", { class: "dt-fit-stem dt-c0", x1: px, x2: px, y1: off(1), y2: py }),
          s("circle", { class: "dt-fit-residual dt-c0", cx: px, cy: py, r: 4 }),
        ];
      }),
    );
    rows.highlightAgain();
  }

  function axes(box, across, up, off) {
    const first = x.values[0];
    const last = x.values[x.values.length - 1];
    const text = (px, py, words, anchor, more = "") =>
      s("text", { x: px, y: py, "text-anchor": anchor, class: more || null }, words);
    const across2 = (py, kind) =>
      s("line", { class: kind, x1: box.left, x2: box.right, y1: py, y2: py });
    return s(
      "g",
      { class: "dt-axes" },
      ticks(...y.range, "log", (box.bottom - box.top) / 34).map((v) => [
        across2(up(v), "dt-grid"),
        text(box.left - 8, up(v) + 4, formatQuantity(v, y.unit), "end"),
      ]),
      across2(box.bottom, "dt-axis"),
      [
        [MOST, `${MOST}×`],
        [1, "1×"],
        [1 / MOST, `${1 / MOST}×`],
      ].map(([v, words]) => [
        across2(off(v), v === 1 ? "dt-fit-zero" : "dt-grid"),
        text(box.left - 8, off(v) + 4, words, "end"),
      ]),
      ticks(first, last, x.scale, (box.right - box.left) / 64).map((v) => [
        s("line", { class: "dt-axis", x1: across(v), x2: across(v), y1: box.low, y2: box.low + 5 }),
        text(across(v), box.low + 22, formatQuantity(v, x.unit), "middle"),
      ]),
      text(4, 16, y.label, "start", "dt-axis-title"),
      text(box.left + 6, box.bottom + 19, "curve / measured", "start", "dt-axis-title dt-halo"),
      text(box.right, box.low + 43, `${x.label} ${x.plain} →`, "end", "dt-axis-title"),
    );
  }

  update();
  return stop;
}

export default { render };
