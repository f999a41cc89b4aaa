// Layers that come over a link: the link, the buffers and the arithmetic on one line of time, and
// below it what a layer takes with 1 to 8 buffers. All times are those that the library exported.

const HINT =
  "Purple is a transfer, blue arithmetic, vermilion waiting; a grey buffer is full and waits for " +
  "its turn, a dotted one for the latency. Tab to the sliders and use the arrow keys.";
const PLOT = 130;

const milliseconds = (value) => formatQuantity(value / 1e3, "s", 3);

function render({ model, el }) {
  const spec = model.get("spec");
  const names = ["buffers", "ratio", "jitter", "latency"];
  const at = { ...spec.start }; // which of its values each has
  const met = spec.task
    ? new Function(...names, "time", "gain", `"use strict"; return ${spec.task.js};`)
    : null;
  let width = 0;

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const sliders = spec.controls.map((control) =>
    slider(control, (value) => {
      at[control.name] = control.values.indexOf(value);
      update();
    }),
  );
  page.controls.append(...sliders.map((control) => control.element));
  const lines = s("svg", { class: "dt-plot dt-offload", role: "img" });
  const plot = s("svg", { class: "dt-plot dt-offload", role: "img" });
  page.stage.append(lines, plot);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    Object.assign(at, spec.start);
    sliders.forEach((control, i) => control.set(spec.start[names[i]]));
    update();
  }

  const value = (name) => spec.values[name][at[name]];
  const stored = (buffers) => spec.runs[buffers][at.ratio][at.jitter][at.latency];
  const timeOf = (buffers) => stored(buffers)[0];

  function update() {
    const time = timeOf(at.buffers);
    const gain = timeOf(Math.max(0, at.buffers - 1)) / time;
    page.task?.set(Boolean(met(...names.map(value), time, gain)));
    page.say(summary(time, gain));
    draw();
  }

  function summary(time, gain) {
    const transfer = spec.computing * value("ratio");
    const fewer = at.buffers
      ? `One buffer fewer: ${milliseconds(timeOf(at.buffers - 1))}.`
      : "With one buffer nothing overlaps.";
    return (
      `${value("buffers")} ${value("buffers") > 1 ? "buffers" : "buffer"}, ` +
      `${milliseconds(spec.computing)} of arithmetic and ${milliseconds(transfer)} of transfer, ` +
      `jitter ${formatQuantity(value("jitter"), "%")}, latency ${milliseconds(value("latency"))}: ` +
      `in the long run a layer takes ${milliseconds(time)}. ${fewer}`
    );
  }

  function draw() {
    if (!width) return;
    drawLines();
    drawPlot();
  }

  function drawLines() {
    const latency = value("latency");
    const fetches = spec.fetches[at.ratio][at.jitter];
    const { time, layers } = unpackRun(stored(at.buffers), fetches, spec.computing, latency);
    const wide = width >= 560;
    const [left, right] = [wide ? 78 : 50, width - 8];
    const count = value("buffers");
    const row = count > 4 ? 13 : 20;
    const top = 34;
    const bufferTop = top + 30;
    const computeTop = bufferTop + count * row + 8;
    const height = computeTop + 50;
    const x = scaleOf(0, spec.window, "linear", left, right);
    const bar = (name, from, to, y, tall) =>
      to > from && from < spec.window
        ? s("rect", {
            class: name,
            x: x(from),
            y,
            width: Math.max(x(Math.min(to, spec.window)) - x(from) - 0.7, 0.6),
            height: tall,
            rx: 2,
          })
        : null;
    const number = (from, to, y, i, name) =>
      to <= spec.window && x(to) - x(from) > 16
        ? s("text", { class: name, x: (x(from) + x(to)) / 2, y, "text-anchor": "middle" }, i)
        : null;
    const link = layers.map((layer) => [
      bar("dt-moves", layer.began, layer.left, top, 22),
      number(layer.began, layer.left, top + 15.5, layer.i, "dt-on-moves"),
    ]);
    const buffers = layers.map((layer) => {
      const y = bufferTop + (layer.i % count) * row + 1.5;
      const tall = row - 3;
      return [
        bar("dt-filling", layer.began, layer.left, y, tall),
        bar("dt-unseen", layer.left, layer.ready, y, tall),
        bar("dt-full", layer.ready, layer.start, y, tall),
        bar("dt-used", layer.start, layer.stop, y, tall),
      ];
    });
    let done = 0;
    const compute = layers.map((layer) => {
      const waited = bar("dt-waits", done, layer.start, computeTop + 2, 20);
      done = layer.stop;
      return [
        waited,
        bar("dt-step", layer.start, layer.stop, computeTop, 24),
        number(layer.start, layer.stop, computeTop + 16.5, layer.i, "dt-on-step"),
      ];
    });
    const label = (text, y) =>
      s("text", { class: "dt-soft", x: left - 8, y, "text-anchor": "end" }, text);
    const axis = ticks(0, spec.window, "linear", width / 110).map((v) => {
      const place = v === 0 ? "start" : x(v) > right - 20 ? "end" : "middle";
      return s(
        "text",
        { class: "dt-soft", x: x(v), y: height - 6, "text-anchor": place },
        milliseconds(v),
      );
    });
    lines.setAttribute("viewBox", `0 0 ${width} ${height}`);
    lines.setAttribute("height", height);
    const waiting = waitedBefore(layers, spec.window);
    lines.setAttribute(
      "aria-label",
      `In the first ${milliseconds(spec.window)} the arithmetic waits for ${milliseconds(waiting)}.`,
    );
    lines.replaceChildren(
      ...[
        s("text", { class: "dt-takes", x: wide ? left : 4, y: 20 },
          `in the long run a layer takes ${milliseconds(time)}`),
        link,
        buffers,
        compute,
        label("link", top + 15),
        label(wide ? (count > 1 ? "buffers" : "buffer") : "buf.", bufferTop + (count * row) / 2 + 4),
        label(wide ? "arithmetic" : "arith.", computeTop + 16),
        axis,
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
  }

  function drawPlot() {
    const times = spec.values.buffers.map((_, i) => timeOf(i));
    const transfer = spec.computing * value("ratio");
    const most = Math.max(...times, transfer) * 1.05;
    const wide = width >= 560;
    const [left, right] = [wide ? 78 : 56, width - (wide ? 104 : 84)];
    const [top, bottom] = [34, 34 + PLOT];
    const up = scaleOf(0, most, "linear", bottom, top);
    const x = scaleOf(1, spec.values.buffers.length, "linear", left + 14, right - 14);
    const marks = ticks(0, most, "linear", 4).map((v) => [
      s("line", { class: "dt-grid", x1: left, x2: right, y1: up(v), y2: up(v) }),
      s("text", { x: left - 8, y: up(v) + 4, "text-anchor": "end" }, milliseconds(v)),
    ]);
    const floors = [
      ["dt-floor-step", spec.computing, "arithmetic"],
      ["dt-floor-link", transfer, "link alone"],
    ].sort((a, b) => b[1] - a[1]);
    const places = spread(floors.map(([, v]) => up(v) + 4), 16, bottom);
    const guides = floors.map(([name, v, text], i) => [
      s("line", { class: name, x1: left, x2: right, y1: up(v), y2: up(v) }),
      s("text", { class: `${name}-text`, x: right + 6, y: places[i] }, text),
    ]);
    const dots = times.map((time, i) => [
      s("circle", {
        class: i === at.buffers ? "dt-now" : "dt-other",
        cx: x(i + 1),
        cy: up(time),
        r: i === at.buffers ? 7 : 5,
      }),
      s("text", { x: x(i + 1), y: bottom + 18, "text-anchor": "middle" }, i + 1),
    ]);
    plot.setAttribute("viewBox", `0 0 ${width} ${bottom + 42}`);
    plot.setAttribute("height", bottom + 42);
    plot.setAttribute(
      "aria-label",
      `Time of a layer with 1 to ${times.length} buffers: ${times.map(milliseconds).join(", ")}.`,
    );
    plot.replaceChildren(
      ...[
        s("g", { class: "dt-axes" }, marks),
        s("text", { class: "dt-axis-title", x: 4, y: 16 }, "time of a layer, in the long run"),
        guides,
        s("g", { class: "dt-axes" }, dots),
        s(
          "text",
          { class: "dt-axis-title", x: right, y: bottom + 36, "text-anchor": "end" },
          "buffers",
        ),
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
  }

  update();
  return stop;
}

export default { render };
