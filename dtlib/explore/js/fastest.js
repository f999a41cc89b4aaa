// Which formula is smallest, over two variables: a map with a movable point.

const HINT =
  "Drag in the map, or Tab to the sliders and use the arrow keys. " +
  "Where a colour is pale, the next one is nearly as good: within 1.1 times, within 2 times.";
const CLOSE = [1.1, 2];

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const [x, y] = [spec.x, spec.vertical];
  const model = formulaModel(spec, [x, y, ...spec.sliders]);
  const { state, curves } = model;

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const controls = [x, y, ...spec.sliders];
  const sliders = controls.map((c) =>
    slider(c, (value) => {
      state[c.name] = value;
      update();
    }),
  );
  page.controls.append(...sliders.map((control) => control.element));
  const rows = formulaRows(page, model, (i) =>
    s(
      "svg",
      { class: `dt-swatch dt-c${i}`, viewBox: "0 0 18 14", "aria-hidden": "true" },
      s("rect", { class: "dt-region is-clear", width: 18, height: 14, rx: 3 }),
    ),
  );

  let width = 0;
  const svg = s("svg", { class: "dt-plot dt-map", role: "img" });
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    model.restore();
    sliders.forEach((control, i) => control.set(controls[i].index));
    rows.unpin();
    update();
  }

  // The smallest formula at a point, and how many times larger the next one is.
  function winner(other = {}) {
    const values = curves.map((c) => model.call(c.at, other));
    const order = values.map((_, i) => i).sort((a, b) => values[a] - values[b]);
    return { best: order[0], lead: values[order[1]] / values[order[0]], values };
  }

  function update() {
    if (width) draw();
    const { best, lead, values } = winner();
    rows.show(
      values.map((v, i) => {
        const text = formatQuantity(v, spec.y.unit, 3);
        return i === best
          ? `${text}, ${spec.word}`
          : `${text}, ${formatQuantity(v / values[best], "×", 3)}`;
      }),
    );
    page.task?.set(model.taskMet());
    const found = formatQuantity(values[best], spec.y.unit, 3);
    const next = formatQuantity(lead, "×", 3);
    const said = `${curves[best].label} is ${spec.word} with ${found}, the next is ${next} that.`;
    page.say(`At ${model.where()}: ${said}`);
  }

  const plotBox = () => ({
    left: 62,
    right: width - 14,
    top: 40,
    bottom: 40 + clamp(width * 0.46, 220, 340),
  });

  // Rows and columns of the map. A variable that steps in powers of two has one band for each.
  function bands(c, from, to) {
    if (c.scale === "powers of two") {
      const step = (to - from) / c.values.length;
      const middle = (i) => from + (i + 0.5) * step;
      return {
        cells: c.values.map((value, i) => ({
          value,
          low: from + i * step,
          high: from + (i + 1) * step,
        })),
        place: (value) => middle(c.values.indexOf(value)),
        invert: (at) => clamp((at - from) / step - 0.5, 0, c.values.length - 1),
        ticks: (most) => {
          const every = Math.ceil(c.values.length / most);
          return c.values.filter((_, i) => i % every === 0);
        },
      };
    }
    const [low, high] = [c.values[0], c.values[c.values.length - 1]];
    const scale = scaleOf(low, high, c.scale, from, to);
    const count = Math.round(Math.abs(to - from) / 5);
    const edge = (i) => from + (i * (to - from)) / count;
    return {
      cells: Array.from({ length: count }, (_, i) => ({
        value: scale.invert((edge(i) + edge(i + 1)) / 2),
        low: edge(i),
        high: edge(i + 1),
      })),
      place: scale,
      invert: (at) => nearest(c.values, scale.invert(at), c.scale),
      ticks: (most) => ticks(low, high, c.scale, most),
    };
  }

  function draw() {
    const box = plotBox();
    const height = box.bottom + 54;
    const [columns, lines] = [bands(x, box.left, box.right), bands(y, box.bottom, box.top)];
    const map = lines.cells.map((line) =>
      columns.cells.map((column) => winner({ [x.name]: column.value, [y.name]: line.value })),
    );
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label", `Which is ${spec.word}, over ${x.label} and ${y.label}.`);
    svg.replaceChildren(
      ...[
        lines.cells.map((line, r) =>
          runs(map[r]).map(({ best, level, from, to }) =>
            s("rect", {
              class: `dt-region dt-c${best} ${level}`,
              "data-key": curves[best].key,
              x: columns.cells[from].low - 0.25,
              width: columns.cells[to].high - columns.cells[from].low + 0.5,
              y: Math.min(line.low, line.high) - 0.25,
              height: Math.abs(line.high - line.low) + 0.5,
            }),
          ),
        ),
        s("path", { class: "dt-border", d: borders(map, columns, lines) }),
        curves.map((c, i) => regionName(c, i, map, columns, lines, box)),
        axes(box, columns, lines),
        point(box, columns, lines),
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
    rows.highlightAgain();
  }

  const levelOf = (lead) =>
    lead < CLOSE[0] ? "is-close" : lead < CLOSE[1] ? "is-ahead" : "is-clear";

  // Neighbouring cells of one look, as one rectangle.
  function runs(line) {
    const found = [];
    line.forEach(({ best, lead }, at) => {
      const level = levelOf(lead);
      const open = found[found.length - 1];
      if (open && open.best === best && open.level === level) open.to = at;
      else found.push({ best, level, from: at, to: at });
    });
    return found;
  }

  function borders(map, columns, lines) {
    let d = "";
    map.forEach((line, r) =>
      line.forEach(({ best }, c) => {
        const [column, row] = [columns.cells[c], lines.cells[r]];
        if (c + 1 < line.length && line[c + 1].best !== best)
          d += `M${column.high} ${row.low}V${row.high}`;
        if (r + 1 < map.length && map[r + 1][c].best !== best)
          d += `M${column.low} ${row.high}H${column.high}`;
      }),
    );
    return d;
  }

  // A region's name stands in its widest row that is nearest to its middle.
  function regionName(c, i, map, columns, lines, box) {
    const spans = map.flatMap((line, r) =>
      runs(line.map((cell) => ({ ...cell, lead: 1 })))
        .filter((run) => run.best === i)
        .map((run) => ({ r, from: columns.cells[run.from].low, to: columns.cells[run.to].high })),
    );
    if (!spans.length) return null;
    const total = spans.reduce((sum, span) => sum + span.to - span.from, 0);
    const middle = spans.reduce((sum, span) => sum + span.r * (span.to - span.from), 0) / total;
    const size = c.label.length * 7.6;
    const flagged = lines.place(state[y.name]);
    const free = spans.filter((span) => Math.abs(lines.cells[span.r].low - flagged) > 48);
    const roomy = free.filter((span) => span.to - span.from > size + 8);
    const best = (roomy.length ? roomy : spans).sort(
      (a, b) => Math.abs(a.r - middle) - Math.abs(b.r - middle),
    )[0];
    const line = lines.cells[best.r];
    const px = clamp((best.from + best.to) / 2, box.left + size / 2 + 4, box.right - size / 2 - 4);
    return s(
      "text",
      {
        class: "dt-region-name dt-halo",
        x: px,
        y: (line.low + line.high) / 2 + 5,
        "text-anchor": "middle",
      },
      c.label,
    );
  }

  function axes(box, columns, lines) {
    const text = (px, py, words, anchor) =>
      s("text", { x: px, y: py, "text-anchor": anchor }, words);
    return s(
      "g",
      { class: "dt-axes" },
      s("rect", {
        class: "dt-map-frame",
        x: box.left,
        y: box.top,
        width: box.right - box.left,
        height: box.bottom - box.top,
      }),
      columns.ticks((box.right - box.left) / 64).map((v) => [
        s("line", {
          class: "dt-axis",
          x1: columns.place(v),
          x2: columns.place(v),
          y1: box.bottom,
          y2: box.bottom + 5,
        }),
        text(columns.place(v), box.bottom + 22, formatQuantity(v, x.unit), "middle"),
      ]),
      lines
        .ticks((box.bottom - box.top) / 26)
        .map((v) => text(box.left - 8, lines.place(v) + 4, formatQuantity(v, y.unit), "end")),
      s("text", { class: "dt-axis-title", x: 4, y: 16 }, `${y.label} ${y.plain} ↑`),
      s(
        "text",
        { class: "dt-axis-title", x: box.right, y: box.bottom + 43, "text-anchor": "end" },
        `${x.label} ${x.plain} →`,
      ),
    );
  }

  function point(box, columns, lines) {
    const [px, py] = [columns.place(state[x.name]), lines.place(state[y.name])];
    const { best, values } = winner();
    const words = `${curves[best].label} ${formatQuantity(values[best], spec.y.unit, 3)}`;
    const above = py - box.top > 44;
    return s(
      "g",
      { class: "dt-probe-line" },
      s("line", { x1: px, x2: px, y1: box.top, y2: box.bottom }),
      s("line", { x1: box.left, x2: box.right, y1: py, y2: py }),
      s("circle", { class: "dt-grab", cx: px, cy: py, r: 24 }),
      s("circle", { class: "dt-handle", cx: px, cy: py, r: 8 }),
      flag(words, px, above ? py - 38 : py + 16, box),
    );
  }

  onDrag(
    svg,
    (px, py) => {
      const box = plotBox();
      const [columns, lines] = [bands(x, box.left, box.right), bands(y, box.bottom, box.top)];
      const chosen = [
        columns.invert(clamp(px, box.left, box.right)),
        lines.invert(clamp(py, box.top, box.bottom)),
      ].map(Math.round);
      [x, y].forEach((c, i) => {
        state[c.name] = c.values[chosen[i]];
        sliders[i].set(chosen[i]);
      });
      update();
    },
    () => sliders[0].input.focus({ preventScroll: true }),
  );

  update();
  return stop;
}

export default { render };
