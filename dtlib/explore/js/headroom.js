// Headroom: one bar for each resource on a logarithmic axis with its border at 1; the reader drags
// the ends of the bars, which moves the variable behind them.

const HINT =
  "Drag the end of a bar, or Tab to the sliders and use the arrow keys; " +
  "Page Up and Page Down make larger steps.";
const ROW = 62;
const TOP = 40;

const times = (value) => formatQuantity(value, "×", 2);
const percent = (value) => formatQuantity(value, "%", 2);

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const [low, high] = spec.ends;
  const model = formulaModel({ ...spec, task: null }, spec.sliders);
  const { state, curves } = model;
  const overlapped = model.compile(spec.overlapped);
  const serial = model.compile(spec.serial);
  const met = spec.task
    ? model.compile(spec.task.js, [...curves.map((c) => c.key), "speed"])
    : null;
  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const sliders = Object.fromEntries(
    spec.sliders.map((c) => [
      c.name,
      slider(c, (value) => {
        state[c.name] = value;
        update();
      }),
    ]),
  );
  page.controls.append(...spec.sliders.map((c) => sliders[c.name].element));
  const rows = formulaRows(page, model);

  let width = 0;
  let held = 0;
  const svg = s("svg", { class: "dt-plot dt-headroom", role: "img" });
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    model.restore();
    spec.sliders.forEach((c) => sliders[c.name].set(c.index));
    rows.unpin();
    update();
  }

  const headrooms = () => curves.map((c) => model.call(c.at));
  const speeds = () => [model.call(serial), model.call(overlapped)];

  function update() {
    if (width) draw();
    const found = headrooms();
    rows.show(found.map(times));
    page.task?.set(Boolean(met && model.call(met, {}, ...found, model.call(overlapped))));
    page.say(summary(found));
  }

  function summary(found) {
    const least = found.indexOf(Math.min(...found));
    const values = curves.map((c, i) => `${c.label} ${times(found[i])}`).join(", ");
    const binds =
      found[least] < 1
        ? `The arithmetic waits for ${curves[least].label}.`
        : "Nothing is slower than the arithmetic.";
    const [from, to] = speeds().map(percent);
    return `Headroom: ${values}. ${binds} Between ${from} and ${to} of the peak rate.`;
  }

  const box = () => ({ left: 14, right: width - 14, bottom: TOP + ROW * curves.length });
  const across = ({ left, right }) => scaleOf(low, high, "log", left, right);

  function draw() {
    const area = box();
    const xs = across(area);
    const found = headrooms();
    const least = found.indexOf(Math.min(...found));
    const height = area.bottom + 124;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label", `Headroom of ${curves.map((c) => c.label).join(", ")}.`);
    svg.replaceChildren(
      ...[
        border(area, xs),
        curves.map((c, i) => bar(c, i, found[i], i === least && found[i] < 1, area, xs)),
        speedBar(area),
      ].flat(Infinity),
    );
    rows.highlightAgain();
  }

  // The half in which the arithmetic waits, the axis, and the border between the halves.
  function border({ left, right, bottom }, xs) {
    const one = xs(1);
    const decades = ticks(low, high, "log", width / 70);
    return [
      s("rect", { class: "dt-waits", x: left, y: TOP, width: one - left, height: bottom - TOP }),
      s(
        "g",
        { class: "dt-axes" },
        decades.map((v) => [
          s("line", { class: "dt-grid", x1: xs(v), x2: xs(v), y1: TOP, y2: bottom }),
          s(
            "text",
            {
              x: xs(v),
              y: bottom + 18,
              "text-anchor": v === low ? "start" : v === high ? "end" : "middle",
            },
            times(v),
          ),
        ]),
        s("text", { class: "dt-axis-title", x: left, y: 16 }, "headroom"),
        s(
          "text",
          { class: "dt-side", x: one - 8, y: TOP - 8, "text-anchor": "end" },
          width < 480 ? "← is waited for" : "← the arithmetic waits for it",
        ),
        s("text", { class: "dt-side", x: one + 8, y: TOP - 8 }, "keeps up →"),
      ),
      s("line", { class: "dt-one", x1: one, x2: one, y1: TOP - 4, y2: bottom + 4 }),
    ];
  }

  function bar(c, i, value, binds, { left, right }, xs) {
    const y = TOP + ROW * i;
    const end = clamp(xs(value), left, right);
    const one = xs(1);
    const beyond = value < low ? " ◂" : value > high ? " ▸" : "";
    const words = `${times(value)}${beyond}`;
    const room = 16 + words.length * 8;
    const outward = value >= 1 ? end + room < right : end - room < left;
    return s(
      "g",
      { class: `dt-bar dt-c${i}${binds ? " is-least" : ""}`, "data-key": c.key },
      s(
        "text",
        { class: "dt-halo dt-bar-name", x: left + 6, y: y + 20 },
        binds ? `${c.label}: the slowest` : c.label,
      ),
      s("rect", {
        class: "dt-bar-fill",
        x: Math.min(end, one),
        y: y + 30,
        width: Math.max(1, Math.abs(end - one)),
        height: 20,
      }),
      s(
        "text",
        {
          class: "dt-halo dt-bar-value",
          x: end + (outward ? 15 : -15),
          y: y + 45,
          "text-anchor": outward ? "start" : "end",
        },
        words,
      ),
      s("circle", { class: "dt-handle", cx: end, cy: y + 40, r: 9 }),
      s("path", { class: "dt-grip", d: `M${end - 2.5} ${y + 36.5}v7M${end + 2.5} ${y + 36.5}v7` }),
    );
  }

  // What is left of the peak rate: from the sum of all times to the longest one alone.
  function speedBar({ left, right, bottom }) {
    const y = bottom + 62;
    const place = (share) => left + share * (right - left);
    const [from, to] = speeds();
    const text = `${percent(from)} to ${percent(to)}`;
    const note = width < 480 ? "" : ": nothing overlaps, to everything overlaps";
    return s(
      "g",
      { class: "dt-speed" },
      s(
        "text",
        { class: "dt-axis-title", x: left, y: y - 10 },
        `share of the peak rate: ${text}`,
        s("tspan", { class: "dt-side" }, note),
      ),
      s("rect", { class: "dt-speed-whole", x: left, y, width: right - left, height: 18 }),
      s("rect", { class: "dt-speed-sure", x: left, y, width: place(from) - left, height: 18 }),
      s("rect", {
        class: "dt-speed-may",
        x: place(from),
        y,
        width: Math.max(1, place(to) - place(from)),
        height: 18,
      }),
      s(
        "g",
        { class: "dt-axes" },
        [0, 0.5, 1].map((share) =>
          s(
            "text",
            {
              x: place(share),
              y: y + 36,
              "text-anchor": share === 0 ? "start" : share === 1 ? "end" : "middle",
            },
            percent(share),
          ),
        ),
      ),
    );
  }

  // Move the variable behind the bar to the value whose bar ends nearest to the pointer.
  function drag(px) {
    const xs = across(box());
    const wanted = Math.log(xs.invert(px));
    const name = spec.grips[held];
    const { values } = spec.sliders.find((c) => c.name === name);
    const off = values.map((value) =>
      Math.abs(Math.log(model.call(curves[held].at, { [name]: value })) - wanted),
    );
    const best = off.indexOf(Math.min(...off));
    state[name] = values[best];
    sliders[name].set(best);
    update();
  }

  // The bar under the pointer is held until it is let go.
  let grabbed = false;
  onDrag(
    svg,
    (px, py) => {
      if (!grabbed) {
        held = clamp(Math.floor((py - TOP) / ROW), 0, curves.length - 1);
        sliders[spec.grips[held]].input.focus({ preventScroll: true });
        grabbed = true;
      }
      drag(px);
    },
    () => {
      grabbed = false;
    },
  );

  update();
  return stop;
}

export default { render };
