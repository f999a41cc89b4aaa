// The reader draws a curve through a few points; then the formula's own curve appears.

const STEPS = 240;
const WIDE = 560;
const LABEL_GAP = 62;
const HINT =
  "Drag the points, or sweep across the figure; or Tab to a point and use the arrow keys, " +
  "Page Up and Page Down.";

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const { x, y, at, truth } = spec;
  const start = x.values[x.index];
  const level = scaleOf(...y.range, "log", 0, STEPS);
  const state = { ...undrawn(), shown: false, skipped: false, fresh: false, focused: -1 };
  const show = h(
    "button",
    { type: "button", class: "dt-button is-primary", onclick: reveal },
    "Show what happens",
  );
  const skip = h(
    "button",
    { type: "button", class: "dt-button", onclick: () => open({ skipped: true }) },
    "Skip",
  );
  const ask = h("p", { class: "dt-sketch-ask", role: "status" });
  const page = frame(el, { title: spec.title, hint: HINT, reset });
  page.root.classList.add("dt-sketch");
  page.controls.append(h("div", { class: "dt-sketch-actions" }, show, skip, ask));

  const inputs = at.map((value, i) =>
    h("input", {
      type: "range",
      class: "dt-sketch-input",
      min: 0,
      max: STEPS,
      step: 2,
      "aria-label": `Your curve at ${x.label} ${formatQuantity(value, x.unit)}`,
      oninput: (event) => set(i, level.invert(+event.target.value)),
      onfocus: () => focus(i),
      onblur: () => focus(-1),
    }),
  );
  const svg = s("svg", { class: "dt-plot", role: "img" });
  page.stage.append(...inputs, svg);

  let width = 0;
  const unsize = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  const neat = (value) => clamp(+value.toPrecision(2), ...y.range);
  const text = (value) => formatQuantity(value, y.unit);
  const where = (i) => `${formatQuantity(at[i], x.unit)} ${x.label}`;

  function undrawn() {
    return { drawn: at.map(() => spec.given), touched: false };
  }

  function set(i, value) {
    state.drawn[i] = neat(value);
    state.touched = true;
    update();
  }

  function focus(i) {
    state.focused = i;
    if (width) draw();
  }

  // What nobody has drawn is nobody's bet.
  function reveal() {
    if (state.touched) open({ drawn: state.drawn });
    else ask.textContent = "Draw first: drag a point up or down. Or skip.";
  }

  function open(bet) {
    state.fresh = true;
    storage.write(spec.key, bet);
  }

  function reset() {
    Object.assign(state, undrawn());
    storage.write(spec.key, null);
  }

  function sync() {
    const kept = storage.read(spec.key);
    state.skipped = Boolean(kept?.skipped);
    state.shown = state.skipped || kept?.drawn?.length === at.length;
    if (state.skipped) Object.assign(state, undrawn());
    else if (state.shown) Object.assign(state, { drawn: [...kept.drawn], touched: true });
    update();
    state.fresh = false;
  }

  function update() {
    inputs.forEach((input, i) => {
      input.value = level(state.drawn[i]);
      input.disabled = state.shown;
      input.setAttribute("aria-valuetext", text(state.drawn[i]));
    });
    show.hidden = skip.hidden = state.shown;
    if (state.shown || state.touched) ask.textContent = "";
    page.root.classList.toggle("is-shown", state.shown);
    page.say(state.shown ? comparison() : drawnInWords());
    if (width) draw();
  }

  const drawnInWords = () =>
    `You draw ${state.drawn.map((value, i) => `${text(value)} on ${where(i)}`).join(", ")}.`;

  // The point that was missed most decides the sentence.
  function comparison() {
    if (state.skipped) return `${allTruths()} ${spec.conclusion}`.trim();
    const miss = state.drawn.map((value, i) => Math.log(truth[i] / value));
    const worst = miss.reduce((best, m, i) => (Math.abs(m) > Math.abs(miss[best]) ? i : best), 0);
    const ratio = Math.exp(Math.abs(miss[worst]));
    const far =
      ratio < 1.3
        ? "You had it"
        : `That is ${formatQuantity(ratio, "", 2)} times ${miss[worst] > 0 ? "as much" : "less"}`;
    const found = `${where(worst)} you drew ${text(state.drawn[worst])}; it is ${text(truth[worst])}`;
    return `On ${found}. ${far}. ${spec.conclusion}`.trim();
  }

  const allTruths = () =>
    `It is ${truth.map((value, i) => `${text(value)} on ${where(i)}`).join(", ")}.`;

  const boxOf = () => ({
    left: 62,
    right: width - (width >= WIDE ? 26 : 16),
    top: 30,
    bottom: 30 + clamp(width * 0.4, 220, 290),
  });

  function draw() {
    const box = boxOf();
    const across = scaleOf(x.values[0], x.values[x.values.length - 1], "log", box.left, box.right);
    const up = scaleOf(...y.range, "log", box.bottom, box.top);
    svg.setAttribute("viewBox", `0 0 ${width} ${box.bottom + 52}`);
    svg.setAttribute("height", box.bottom + 52);
    svg.setAttribute("aria-label", `${y.label} against ${x.label}, as you draw it.`);
    const points = [start, ...at].map((v, i) => ({
      v,
      mine: i ? state.drawn[i - 1] : spec.given,
    }));
    points.sort((a, b) => a.v - b.v);
    const mine = !state.skipped;
    svg.replaceChildren(
      ...[
        axes(box, across, up),
        state.shown ? revealed(box, across, up) : [],
        mine
          ? s("path", {
              class: "dt-drawn",
              d: pathOf(
                points.map((p) => across(p.v)),
                points.map((p) => up(p.mine)),
              ),
            })
          : [],
        s("circle", { class: "dt-given", cx: across(start), cy: up(spec.given), r: 6 }),
        mine ? at.map((v, i) => handle(i, across(v), up(state.drawn[i]), box)) : [],
        state.shown ? trueDots(across, up, box) : [],
      ].flat(Infinity),
    );
  }

  function axes(box, across, up) {
    const last = x.values[x.values.length - 1];
    const below = ticks(x.values[0], last, x.scale, (box.right - box.left) / 64);
    const beside = ticks(...y.range, "log", (box.bottom - box.top) / 34);
    return plotAxes(box, across, up, { x, y, below, beside, title: `${x.label} →`, drop: 23 });
  }

  function revealed(box, across, up) {
    const px = x.values.map(across);
    const fresh = state.fresh && !calm() ? " is-new" : "";
    const guide = spec.guide;
    return [
      guide ? s("path", { class: "dt-guide", d: pathOf(px, guide.values.map(up)) }) : [],
      guide ? guideLabel(guide, across, up) : [],
      s("path", {
        class: `dt-curve dt-c0${fresh}`,
        pathLength: fresh ? 1 : null,
        d: pathOf(px, spec.curve.map(up)),
      }),
      (state.skipped ? [] : at).map((v, i) =>
        s("line", {
          class: "dt-gap",
          x1: across(v),
          x2: across(v),
          y1: up(state.drawn[i]),
          y2: up(truth[i]),
        }),
      ),
    ];
  }

  function guideLabel(guide, across, up) {
    const i = Math.floor(guide.values.length * 0.62);
    return s(
      "text",
      {
        class: "dt-guide-label dt-halo",
        x: across(x.values[i]) - 8,
        y: up(guide.values[i]) + 14,
        "text-anchor": "end",
      },
      guide.label,
    );
  }

  function handle(i, px, py, box) {
    const end = px + 60 > box.right;
    return s(
      "g",
      { class: `dt-sketch-point${i === state.focused ? " is-focused" : ""}` },
      s("circle", { class: "dt-dot-mine", cx: px, cy: py, r: state.shown ? 5 : 9 }),
      state.shown
        ? []
        : [
            s("path", {
              d: `M${px - 5} ${py - 14}l5 -5l5 5M${px - 5} ${py + 14}l5 5l5 -5`,
            }),
            width >= WIDE || i === state.focused
              ? s(
                  "text",
                  {
                    class: "dt-halo",
                    x: px + (end ? -14 : 14),
                    y: py + (py < box.top + 40 ? 26 : -10),
                    "text-anchor": end ? "end" : "start",
                  },
                  text(state.drawn[i]),
                )
              : [],
            s("circle", { class: "dt-grab", cx: px, cy: py, r: 24 }),
          ],
    );
  }

  // The true values, from the right; one that would stand in its neighbour's way stays unsaid.
  function trueDots(across, up, box) {
    let free = Infinity;
    return at
      .map((v, i) => ({ px: across(v), py: up(truth[i]), label: text(truth[i]) }))
      .sort((a, b) => b.px - a.px)
      .map(({ px, py, label }) => {
        const end = px + LABEL_GAP > box.right;
        const right = end ? px : px + LABEL_GAP;
        const said = right <= free;
        if (said) free = right - LABEL_GAP;
        return s(
          "g",
          { class: "dt-sketch-truth" },
          s("circle", { cx: px, cy: py, r: 5 }),
          said
            ? s(
                "text",
                {
                  class: "dt-halo",
                  x: px + (end ? 6 : 9),
                  y: py - 9,
                  "text-anchor": end ? "end" : "start",
                },
                label,
              )
            : [],
        );
      });
  }

  // A sweep sets every point that it passes, also where the pointer jumps over it.
  let before = null;
  onDrag(
    svg,
    (px, py) => {
      if (state.shown) return;
      const box = boxOf();
      const across = scaleOf(x.values[0], x.values[x.values.length - 1], "log", box.left, box.right);
      const up = scaleOf(...y.range, "log", box.bottom, box.top);
      const places = at.map(across);
      const from = before ?? [px, py];
      const reach = Math.min(...places.map((place) => Math.abs(place - px)));
      places.forEach((place, i) => {
        const passed = (place - from[0]) * (place - px) < 0;
        if (!passed && Math.abs(place - px) > reach) return;
        const share = passed ? (place - from[0]) / (px - from[0]) : 1;
        state.drawn[i] = neat(up.invert(from[1] + share * (py - from[1])));
        state.touched = true;
        state.focused = i;
      });
      before = [px, py];
      update();
    },
    () => {
      before = null;
    },
  );

  const heard = (event) => {
    if (event.detail === spec.key) sync();
  };
  addEventListener(EVENT, heard);
  sync();
  return () => {
    removeEventListener(EVENT, heard);
    unsize();
  };
}

export default { render };
