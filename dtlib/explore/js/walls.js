// Models as points over parameters and tokens; the walls of memory and time move with the machine.

const HINT =
  "Drag the square, click a published model, or Tab to it and use the arrow keys: first the " +
  "parameters, then the tokens.";
const WIDE = 560;
const SNAP = 8; // px from the line of tokens per parameter, on which a dragged square stays
const TIMES = [
  ["1 day", 86400],
  ["10 years", 10 * 365.25 * 86400],
];

// 5B parameters, 1.4T tokens: as the field writes counts.
function short(value) {
  const [name, size] = [["T", 1e12], ["B", 1e9], ["M", 1e6]].find(([, s]) => value >= s * 0.9995) ?? [
    "",
    1,
  ];
  return formatQuantity(value / size, "", 3) + name;
}

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const [x, y] = [spec.x, spec.vertical];
  const model = formulaModel(spec, [x, y, ...spec.sliders]);
  const { state } = model;
  const lines = Object.fromEntries(
    Object.entries(spec.lines).map(([name, js]) => [name, model.compile(js)]),
  );
  const at = (name, other) => model.call(lines[name], other);
  const [stateBytes, time] = model.curves.map((c) => () => model.call(c.at));
  const free = spec.links[0][1];

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const ends = (c) => [c.values[0], c.values[c.values.length - 1]];
  const hidden = (c, label) =>
    h("input", {
      type: "range",
      class: "dt-probe",
      min: 0,
      max: c.values.length - 1,
      step: 1,
      "aria-label": label,
      oninput: (event) => {
        state[c.name] = c.values[event.target.value];
        update();
      },
    });
  const probes = [hidden(x, "parameters of your model"), hidden(y, "training tokens")];
  const gpus = choice(
    "GPU",
    spec.gpus.map(([name]) => name),
    (i) => {
      [, state.peak, state.memory] = spec.gpus[i];
      update();
    },
  );
  const links = choice(
    "adding up gradients",
    spec.links.map(([name]) => name),
    (i) => {
      state.beta = spec.links[i][1];
      update();
    },
  );
  const sliders = spec.sliders.map((c) =>
    slider(c, (value) => {
      state[c.name] = value;
      update();
    }),
  );
  page.controls.append(
    sliders[0].element,
    gpus.element,
    sliders[1].element,
    links.element,
  );
  const meters = { memory: meter("memory"), time: meter("time") };
  page.readout.append(meters.memory.element, meters.time.element);

  let width = 0;
  const svg = s("svg", { class: "dt-plot dt-map dt-walls", role: "img" });
  page.stage.append(...probes, svg);
  const clip = uniqueId("clip");
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    model.restore();
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    gpus.set(0);
    links.set(0);
    update();
  }

  function update() {
    if (width) draw();
    [x, y].forEach((c, i) => {
      probes[i].value = nearest(c.values, state[c.name], "log");
      probes[i].setAttribute("aria-valuetext", short(state[c.name]));
    });
    const [bytes, seconds] = [stateBytes(), time()];
    const room = state.P * state.memory;
    const talking = talkShare();
    const gpu = spec.gpus[gpus.index()][0];
    const cards = `${formatQuantity(state.P)} × ${gpu}`;
    meters.memory.show(
      [[bytes / room, "dt-bar-state"]],
      `${quantity(bytes, "B")} of ${quantity(room, "B")}`,
      `16 B × ${short(state.params)} parameters; ${held(at("devices"), gpu)}`,
    );
    meters.time.show(
      [
        [((1 - talking) * seconds) / state.deadline, "dt-bar-time"],
        [(talking * seconds) / state.deadline, "dt-bar-talk"],
      ],
      `${quantity(seconds, "s")} of ${quantity(state.deadline, "s")}`,
      `6 × ${short(state.params)} × ${short(state.tokens)} = ` +
        `${(6 * state.params * state.tokens).toExponential(2)} FLOP, at ` +
        `${quantity(state.P * state.peak * state.mfu, "FLOP/s")}` +
        (talking > 0
          ? `; ${quantity(talking, "%")} of the time goes into adding up gradients: ` +
            `${quantity((1 - talking) * state.mfu, "%")} of the peak is left.`
          : "."),
    );
    page.task?.set(model.taskMet());
    page.say(
      `${short(state.params)} parameters and ${short(state.tokens)} tokens on ${cards}: ` +
        `the state ${bytes <= room ? "fits" : "does not fit"}, the run takes ` +
        `${quantity(seconds, "s")}, ${seconds <= state.deadline ? "in time" : "too long"}.`,
    );
  }

  const quantity = (value, unit) => formatQuantity(value, unit, 3);
  const held = (n, gpu) =>
    n <= state.P
      ? `${formatQuantity(n)} ${gpu} ${n === 1 ? "holds" : "hold"} that.`
      : `that needs ${formatQuantity(n)} ${gpu}.`;

  function talkShare() {
    const alone = at("alone");
    return state.beta === free ? 0 : 1 - at("tokens") / alone;
  }

  const plotBox = () => ({
    left: 52,
    right: width - 12,
    top: 30,
    bottom: 30 + clamp(width * 0.52, 270, 380),
  });

  function draw() {
    const box = plotBox();
    const height = box.bottom + 48;
    const xs = scaleOf(...ends(x), "log", box.left, box.right);
    const ys = scaleOf(...ends(y), "log", box.bottom, box.top);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute(
      "aria-label",
      `Training tokens against parameters, both logarithmic. The memory wall stands at ` +
        `${short(at("wall"))} parameters.`,
    );
    const wall = clamp(xs(at("wall")), box.left, box.right);
    const inTime = (name, seconds) => {
      const tokens = ends(x).map((params) =>
        at(name, { params, ...(seconds ? { deadline: seconds } : {}) }),
      );
      return ends(x).map((params, i) => [xs(params), ys(tokens[i])]);
    };
    const deadline = quantity(state.deadline, "s");
    const late = inTime("tokens");
    const alone = inTime("alone");
    const path = (points) => points.map(([px, py], i) => `${i ? "L" : "M"}${px} ${py}`).join("");
    const under = (points) => `${path(points)}V${box.bottom}H${box.left}Z`;
    const over = (points) => `${path(points)}V${box.top}H${box.left}Z`;
    const talks = state.beta !== free;
    const counted = TIMES.map(([name, seconds]) => [name, inTime("tokens", seconds)]);
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
        s(
          "g",
          { "clip-path": `url(#${clip})` },
          s("path", { class: "dt-good-ground", d: under(late) }),
          s("path", { class: "dt-late-ground", d: over(talks ? alone : late) }),
          talks
            ? s("path", {
                class: "dt-talk-ground",
                d: `${path(late)}L${alone[1].join(" ")}L${alone[0].join(" ")}Z`,
              })
            : null,
          s("rect", {
            class: "dt-full-ground",
            x: wall,
            y: box.top,
            width: box.right - wall,
            height: box.bottom - box.top,
          }),
          counted.map(([, points]) => s("path", { class: "dt-guide", d: path(points) })),
          s("path", {
            class: "dt-guide",
            d: path(ends(x).map((v) => [xs(v), ys(v * state.tokens_per_param)])),
          }),
          s("path", { class: "dt-time-wall", d: path(late) }),
          s("line", { class: "dt-memory-wall", x1: wall, x2: wall, y1: box.top, y2: box.bottom }),
        ),
        axes(box, xs, ys),
        counted.map(([name, points]) => along(points, box, name, 0.08, "dt-guide-label")),
        along(
          ends(x).map((v) => [xs(v), ys(v * state.tokens_per_param)]),
          box,
          `${state.tokens_per_param} ${width < WIDE ? "" : "tokens "}per parameter`,
          0.16,
          "dt-guide-label",
        ),
        along(late, box, deadline, 0.05, "dt-time-name"),
        wallName(box, wall),
        published(box, xs, ys, inked(late, box, deadline, 0.05)),
        point(box, xs, ys),
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
  }

  // A name written along a falling or rising line, at a share of the part that is in the plot.
  function along(line, box, text, share, look) {
    const found = beside(line, box, text, share);
    if (!found) return null;
    const [px, py, turn] = found;
    return s(
      "text",
      { class: `dt-halo ${look}`, x: px, y: py - 6, transform: `rotate(${turn} ${px} ${py})` },
      text,
    );
  }

  function beside([[x0, y0], [x1, y1]], box, text, share) {
    const slope = (y1 - y0) / (x1 - x0);
    const reach = [box.top, box.bottom].map((py) => x0 + (py - y0) / slope);
    const from = Math.max(box.left, Math.min(...reach));
    const to = Math.min(box.right, Math.max(...reach));
    if (to - from < text.length * 7 + 20) return null;
    const px = from + clamp((to - from) * share, 8, 400);
    const py = y0 + (px - x0) * slope;
    return [px, py, (Math.atan(slope) * 180) / Math.PI];
  }

  // The area that a name along a falling line takes.
  function inked(line, box, text, share) {
    const found = beside(line, box, text, share);
    if (!found) return [];
    const [left, top] = found;
    const reach = text.length * 7;
    return [{ left, right: left + reach, top: top - 18, bottom: top + reach }];
  }

  function wallName(box, wall) {
    const beyond = wall >= box.right - 2;
    const text = beyond ? `memory: ${short(at("wall"))} →` : "memory is full";
    const left = beyond || wall > box.right - 110;
    return s(
      "text",
      {
        class: "dt-halo dt-memory-name",
        x: wall + (left ? -7 : 7),
        y: box.bottom - 9,
        "text-anchor": left ? "end" : "start",
      },
      text,
    );
  }

  // Each name goes to the side of its dot that is free; where none is, the dot stands alone.
  function published(box, xs, ys, names) {
    const mine = { left: xs(state.params) - 9, right: xs(state.params) + 9 };
    const taken = [...names, { ...mine, top: ys(state.tokens) - 9, bottom: ys(state.tokens) + 9 }];
    const dots = spec.models.map(([name, params, tokens]) => [name, xs(params), ys(tokens)]);
    for (const [, px, py] of dots)
      taken.push({ left: px - 4, right: px + 4, top: py - 4, bottom: py + 4 });
    return dots.map(([name, px, py]) => {
      const size = 7 * name.length;
      const sides = [
        [px + 8, py + 4, "start", 0],
        [px - 8, py + 4, "end", size],
        [px, py - 9, "middle", size / 2],
        [px, py + 17, "middle", size / 2],
      ].map(([tx, ty, anchor, shift]) => ({
        attributes: { x: tx, y: ty, "text-anchor": anchor },
        area: { left: tx - shift, right: tx - shift + size, top: ty - 10, bottom: ty + 3 },
      }));
      const free = sides.find(
        ({ area }) =>
          area.left > box.left && area.right < box.right && !taken.some((t) => meet(t, area)),
      );
      if (free) taken.push(free.area);
      return s(
        "g",
        { class: "dt-published" },
        s("title", {}, `${name}: click to put your model here`),
        s("circle", { cx: px, cy: py, r: 4 }),
        free ? s("text", { class: "dt-halo", ...free.attributes }, name) : null,
      );
    });
  }

  const meet = (a, b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

  function axes(box, xs, ys) {
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
      ticks(...ends(x), "log", (box.right - box.left) / 56).map((v) => [
        s("line", { class: "dt-axis", x1: xs(v), x2: xs(v), y1: box.bottom, y2: box.bottom + 5 }),
        text(xs(v), box.bottom + 20, short(v), "middle"),
      ]),
      ticks(...ends(y), "log", (box.bottom - box.top) / 30).map((v) =>
        text(box.left - 8, ys(v) + 4, short(v), "end"),
      ),
      s("text", { class: "dt-axis-title", x: 4, y: 16 }, `training tokens ${y.plain} ↑`),
      s(
        "text",
        { class: "dt-axis-title", x: box.right, y: box.bottom + 41, "text-anchor": "end" },
        `parameters ${x.plain} →`,
      ),
    );
  }

  function point(box, xs, ys) {
    const [px, py] = [xs(state.params), ys(state.tokens)];
    const words = `${short(state.params)} on ${short(state.tokens)}: ${quantity(time(), "s")}`;
    const above = py - box.top > 52;
    return s(
      "g",
      { class: "dt-your-model" },
      s("circle", { class: "dt-grab", cx: px, cy: py, r: 26 }),
      s("rect", { class: "dt-handle", x: px - 8, y: py - 8, width: 16, height: 16, rx: 3 }),
      flag(words, px, above ? py - 42 : py + 18, box),
    );
  }

  onDrag(
    svg,
    (px, py) => {
      const box = plotBox();
      const xs = scaleOf(...ends(x), "log", box.left, box.right);
      const ys = scaleOf(...ends(y), "log", box.bottom, box.top);
      const near = spec.models.find(
        ([, params, tokens]) => Math.hypot(xs(params) - px, ys(tokens) - py) < 10,
      );
      if (near) [, state.params, state.tokens] = near;
      else {
        const index = (c, scale, low, high, v) =>
          c.values[nearest(c.values, scale.invert(clamp(v, low, high)), "log")];
        state.params = index(x, xs, box.left, box.right, px);
        const line = y.values[nearest(y.values, state.tokens_per_param * state.params, "log")];
        const close = Math.abs(ys(line) - py) < SNAP;
        state.tokens = close ? line : index(y, ys, box.top, box.bottom, py);
      }
      update();
    },
    () => probes[0].focus({ preventScroll: true }),
  );

  update();
  return stop;
}

// A few named possibilities, one of which is chosen: radio buttons in the look of a switch.
function choice(title, names, changed) {
  const group = uniqueId("choice");
  const inputs = names.map((_, i) =>
    h("input", { type: "radio", name: group, checked: i === 0, onchange: () => changed(i) }),
  );
  const element = h(
    "fieldset",
    { class: "dt-switch" },
    h("legend", { class: "dt-slider-name" }, title),
    h(
      "div",
      { class: "dt-switch-row" },
      names.map((name, i) => h("label", { class: "dt-switch-item" }, inputs[i], name)),
    ),
  );
  const set = (index) => {
    inputs[index].checked = true;
  };
  return { element, set, index: () => inputs.findIndex((input) => input.checked) };
}

// A bar that fills up to what there is, and says so when more is asked.
function meter(name) {
  const value = h("span", { class: "dt-row-value" });
  const bar = h("div", { class: "dt-meter", "aria-hidden": "true" });
  const note = h("p", { class: "dt-meter-note" });
  const element = h(
    "div",
    { class: "dt-meter-row" },
    h("span", { class: "dt-meter-name" }, name),
    value,
    bar,
    note,
  );
  return {
    element,
    show(parts, text, said) {
      const total = parts.reduce((sum, [share]) => sum + share, 0);
      element.classList.toggle("is-over", total > 1);
      const over = total > 1 ? `: ${formatQuantity(total, "×", 3)} what there is` : "";
      value.textContent = text + over;
      bar.replaceChildren(
        ...parts.map(([share, look]) => {
          const part = h("span", { class: look });
          part.style.width = `${(100 * share) / Math.max(1, total)}%`;
          return part;
        }),
      );
      note.textContent = said;
    },
  };
}

export default { render };
