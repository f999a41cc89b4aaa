// Five tracks with a border each, which one slider moves, and a mark on each track that is dragged.

const HINT =
  "Move the ratio, choose a model, or drag a mark along its track; Tab reaches every mark, arrow " +
  "keys move it.";
const ROW = 66;
const TOP = 8;

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const { tracks, models } = spec;
  const [low, high] = spec.ends;
  const count = (value) => formatQuantity(value, "", 3);
  const names = ["rho", "hidden", "published"];
  const met = spec.task
    ? new Function(...names, `"use strict"; return ${spec.task.js};`)
    : null;
  const state = {};

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const ratio = slider(spec.ratio, (value) => set({ rho: value }));
  const buttons = (label, items, press) => {
    const all = items.map((text, i) =>
      h("button", { type: "button", class: "dt-button", onclick: () => press(i) }, text),
    );
    return { all, element: h("div", { class: "dt-or-row", role: "group", "aria-label": label }, all) };
  };
  const links = buttons(
    `Links of ${spec.gpu}, per direction`,
    spec.links.map(([name, , beta]) => `${name}, ${beta}`),
    (i) => {
      ratio.set(spec.ratio.values.indexOf(spec.links[i][1]));
      set({ rho: spec.links[i][1], link: i });
    },
  );
  const published = buttons(
    "Models",
    models.map((m) => m.label),
    (i) => choose(i),
  );
  const own = h("span", { class: "dt-or-own" });
  published.element.append(own);
  const about = h("p", { class: "dt-or-about" }, `${spec.gpu}; bytes per second in one direction.`);
  page.stage.before(h("div", { class: "dt-or-top" }, ratio.element, links.element, about, published.element));

  const svg = s("svg", { class: "dt-plot dt-one-ratio", role: "img" });
  const marks = tracks.map((track, i) =>
    h("input", {
      type: "range",
      class: "dt-or-mark",
      min: 0,
      max: track.values.length - 1,
      step: 1,
      "aria-label": `${track.key}: ${track.length}`,
      oninput: (event) => move(i, track.values[event.target.value]),
    }),
  );
  page.stage.append(...marks, svg);
  const rows = tracks.map((track) => {
    const value = h("span", { class: "dt-row-value" });
    const note = h("span", { class: "dt-or-note" });
    const element = h(
      "div",
      { class: "dt-row" },
      h("span", {}, h("strong", {}, track.key), " ", note),
      value,
    );
    return { element, value, note };
  });
  page.readout.append(...rows.map((row) => row.element));

  let width = 0;
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function set(change) {
    Object.assign(state, change);
    update();
  }

  function choose(i) {
    set({ model: i, published: true, lengths: [...models[i].lengths] });
  }

  function move(i, value) {
    state.lengths[i] = value;
    set({ published: models[state.model].lengths.every((v, k) => v === state.lengths[k]) });
  }

  function reset() {
    ratio.set(spec.ratio.index);
    state.rho = spec.ratio.values[spec.ratio.index];
    state.link = spec.start;
    choose(0);
  }

  const ports = (i) => spec.links[state.link][3][i];
  const border = (i) => (models[state.model].factors[i] * state.rho) / ports(i);
  const share = (i) => (state.lengths[i] === null ? null : border(i) / state.lengths[i]);
  const hides = (i) => share(i) !== null && share(i) <= 1 + 1e-12;
  const verdict = (i) => (share(i) === null ? "no experts" : hides(i) ? "hidden" : "exposed");

  function update() {
    if (width) draw();
    links.all.forEach((button, i) =>
      button.setAttribute(
        "aria-pressed",
        String(i === state.link && spec.links[i][1] === state.rho),
      ),
    );
    published.all.forEach((button, i) =>
      button.setAttribute("aria-pressed", String(state.published && i === state.model)),
    );
    own.textContent = state.published
      ? ""
      : `lengths of your own; key heads as in ${models[state.model].label}`;
    tracks.forEach((track, i) => {
      const length = state.lengths[i];
      const text = length === null ? "no experts" : count(length);
      marks[i].value = nearest(track.values, length ?? low, "log");
      marks[i].setAttribute(
        "aria-valuetext",
        `${text}, border ${count(border(i))}, ${verdict(i)}`,
      );
      rows[i].note.textContent =
        length === null
          ? ""
          : `${count(length)} against ${count(border(i))}` +
            (ports(i) > 1 ? ` on ${ports(i)} ports` : "");
      rows[i].value.textContent =
        length === null ? "no experts" : `${verdict(i)}: ${formatQuantity(share(i), "×", 2)}`;
    });
    const hidden = tracks.filter((_, i) => hides(i)).length;
    page.task?.set(Boolean(met && met(state.rho, hidden, state.published ? 1 : 0)));
    const those = (word) =>
      tracks
        .filter((_, i) => verdict(i) === word)
        .map((t) => t.key)
        .join(", ") || "none";
    page.say(
      `At ${formatQuantity(state.rho, "FLOP/B", 3)}: hidden are ${those("hidden")}; ` +
        `exposed are ${those("exposed")}. ` +
        "Beside each stands its communication over its arithmetic.",
    );
  }

  const ends = () => ({ left: 10, right: width - 10 });
  const across = () => {
    const { left, right } = ends();
    return scaleOf(low, high, "log", left, right);
  };
  const inside = (x) => clamp(x, ends().left, ends().right);

  function draw() {
    const xs = across();
    const bottom = TOP + ROW * tracks.length;
    const height = bottom + 44;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute(
      "aria-label",
      tracks.map((t, i) => `${t.key}: ${verdict(i)}`).join(", "),
    );
    marks.forEach((mark, i) => {
      mark.style.top = `${TOP + ROW * i + 22}px`;
    });
    svg.replaceChildren(axis(xs, bottom), ...tracks.map((track, i) => row(track, i, xs)));
  }

  function axis(xs, bottom) {
    return s(
      "g",
      { class: "dt-axes" },
      ticks(low, high, "log", width / 80).map((v) => [
        s("line", { class: "dt-grid", x1: xs(v), x2: xs(v), y1: TOP, y2: bottom }),
        s(
          "text",
          {
            x: xs(v),
            y: bottom + 16,
            "text-anchor": v === low ? "start" : v === high ? "end" : "middle",
          },
          count(v),
        ),
      ]),
      s(
        "text",
        { class: "dt-axis-title", x: ends().left, y: bottom + 37 },
        width < 520 ? "length (a count); shaded: hidden" : "length (a count); shaded: long enough to hide",
      ),
    );
  }

  function row(track, i, xs) {
    const { left, right } = ends();
    const y = TOP + ROW * i;
    const edge = inside(xs(border(i)));
    const length = state.lengths[i];
    const at = length === null ? null : inside(xs(length));
    const sign = { hidden: "✓ hidden", exposed: "× exposed", "no experts": "no experts" };
    const title = width < 520 ? track.key : `${track.key}: ${track.length}`;
    return s(
      "g",
      { class: `dt-or-track is-${verdict(i).replace(" ", "-")}` },
      s("text", { class: "dt-halo dt-or-name", x: left, y: y + 16 }, title),
      s(
        "text",
        { class: "dt-halo dt-or-verdict", x: right, y: y + 16, "text-anchor": "end" },
        sign[verdict(i)],
      ),
      s("rect", { class: "dt-or-line", x: left, y: y + 26, width: right - left, height: 26 }),
      s("rect", { class: "dt-or-hides", x: edge, y: y + 26, width: right - edge, height: 26 }),
      s("line", { class: "dt-one", x1: edge, x2: edge, y1: y + 22, y2: y + 56 }),
      at === null
        ? null
        : [
            s("circle", { class: "dt-handle dt-or-handle", cx: at, cy: y + 39, r: 10 }),
            s("path", {
              class: "dt-grip",
              d: hides(i)
                ? `M${at - 4} ${y + 39}l3 3l5 -6`
                : `M${at - 3.5} ${y + 35.5}l7 7m0 -7l-7 7`,
            }),
          ],
    );
  }

  let held = null;
  onDrag(
    svg,
    (px, py) => {
      held ??= clamp(Math.floor((py - TOP) / ROW), 0, tracks.length - 1);
      marks[held].focus({ preventScroll: true });
      const { values } = tracks[held];
      move(held, values[nearest(values, across().invert(px), "log")]);
    },
    () => {
      held = null;
    },
  );

  reset();
  return stop;
}

export default { render };
