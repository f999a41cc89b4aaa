// Nodes as rows of seats with ranks on them. Two ranks change places; every network port shows what
// it has to carry, and the busiest one says how long the all-reduce takes.

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const { nodes, perNode } = spec.shape;
  const total = nodes * perNode;
  const met = spec.task
    ? new Function(...spec.task.names, `"use strict"; return ${spec.task.js};`)
    : null;
  const state = {};
  let width = 0;
  let turn = 0;

  const page = frame(el, {
    title: spec.title,
    task: spec.task,
    hint:
      "Press a rank, then another one: they change places. " +
      "With the keyboard: Tab to a seat, arrow keys to another, Enter to take and to put.",
    reset,
  });
  const name = uniqueId("schedule");
  const radios = spec.schedules.map(({ label }, i) =>
    h("input", { type: "radio", name, onchange: () => set({ schedule: i }), "aria-label": label }),
  );
  const choices = h(
    "fieldset",
    { class: "dt-seat-choices" },
    h("legend", { class: "dt-hidden" }, "Schedule"),
    spec.schedules.map(({ label }, i) => h("label", {}, radios[i], ` ${label}`)),
  );
  const preset = (text, make) =>
    h("button", { type: "button", class: "dt-button", onclick: () => set({ order: make() }) }, text);
  const presets = h(
    "div",
    { class: "dt-seat-presets" },
    preset("in order", () => inOrder(total)),
    preset("dealt in turn", () => dealt(nodes, perNode)),
    preset("shuffled", () => shuffled(total, turn++)),
  );
  page.stage.before(choices, presets);
  const svg = s("svg", { class: "dt-plot dt-seats" });
  page.stage.append(svg);
  const sliders = spec.sliders.map((control) =>
    slider(control, (value) => set({ [control.name]: value })),
  );
  page.controls.append(...sliders.map(({ element }) => element));
  const result = h("span", { class: "dt-row-value" });
  const limit = h("span", { class: "dt-row-value" });
  page.readout.append(
    h("div", { class: "dt-row" }, h("strong", {}, "the busiest port needs"), result),
    h("div", { class: "dt-row" }, "no all-reduce on this machine can do with less than", limit),
  );
  const seats = inOrder(total).map((seat) =>
    s("g", {
      class: "dt-piece dt-seat",
      role: "button",
      tabindex: "0",
      onclick: () => press(seat),
      onkeydown: (event) => {
        if (key(seat, event.key)) event.preventDefault();
      },
    }),
  );
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    turn = 0;
    Object.assign(state, { ...spec.start, order: [...spec.start.order], held: null });
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    update();
  }

  function set(change) {
    Object.assign(state, change, { held: null });
    update();
  }

  function press(seat) {
    if (state.held === null) state.held = seat;
    else {
      state.order = exchanged(state.order, state.held, seat);
      state.held = null;
    }
    update();
    seats[seat].focus({ preventScroll: true });
  }

  function key(seat, pressed) {
    if (pressed === "Enter" || pressed === " ") press(seat);
    else if (pressed === "Escape") set({});
    else {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -perNode, ArrowDown: perNode }[pressed];
      if (step === undefined) return false;
      seats[clamp(seat + step, 0, total - 1)].focus({ preventScroll: true });
    }
    return true;
  }

  function scene() {
    const shape = { ...spec.shape, nics: state.nics, taper: state.taper };
    const { edges } = spec.schedules[state.schedule];
    const betas = seatBetas(shape, spec.betas);
    const loads = seatLoads(edges, state.order, shape);
    const worst = seatTime(loads, betas, spec.n);
    return { shape, edges, betas, loads, worst, bound: seatBound(shape, betas, spec.n) };
  }

  function update() {
    const { worst, bound } = scene();
    if (width) draw();
    radios.forEach((radio, i) => {
      radio.checked = i === state.schedule;
    });
    const time = formatQuantity(worst.seconds, "s", 3);
    result.textContent = time;
    limit.textContent = formatQuantity(bound, "s", 3);
    const { nics, taper, schedule } = state;
    page.task?.set(Boolean(met(worst.seconds, bound, nics, taper, schedule)));
    const busiest = `${worst.kind} ${worst.number} ${worst.direction}`;
    const times = formatQuantity(worst.seconds / bound, "×", 3);
    page.say(
      `${sentence(spec.schedules[schedule].label)}: the busiest port, ${busiest}, carries ` +
        `${formatQuantity(worst.bytes, "B", 3)} and needs ${time}, ${times} the bound.`,
    );
  }

  function draw() {
    const now = scene();
    const ports = width < 480 ? 96 : 170;
    const size = Math.min(64, (width - ports - 34) / perNode);
    const row = 62;
    const gap = 24;
    const podRows = spec.shape.podNodes;
    const yOf = (node) => 24 + node * row + Math.floor(node / podRows) * gap;
    const height = yOf(nodes - 1) + row + gap;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const senders = new Set(
      now.edges
        .filter(([src, dst]) => nodeOf(state.order[src]) !== nodeOf(state.order[dst]))
        .map(([src]) => state.order[src]),
    );
    const focused = seats.find((seat) => seat === document.activeElement);
    const rankAt = [];
    state.order.forEach((seat, rank) => {
      rankAt[seat] = rank;
    });
    seats.forEach((element, seat) => {
      const [node, column] = [nodeOf(seat), seat % perNode];
      const crosses = senders.has(seat);
      const held = state.held === seat;
      element.setAttribute("aria-pressed", String(held));
      element.setAttribute(
        "aria-label",
        `node ${node}, seat ${column}: rank ${rankAt[seat]}${crosses ? ", sends out of the node" : ""}`,
      );
      const [x, y] = [8 + column * size, yOf(node) + 7];
      element.replaceChildren(
        s("rect", {
          class: `dt-seat-box${crosses ? " is-out" : ""}${held ? " is-held" : ""}`,
          x: x + 3,
          y,
          width: size - 6,
          height: row - 20,
          rx: 8,
        }),
        s("text", { x: x + size / 2, y: y + 26, "text-anchor": "middle" }, String(rankAt[seat])),
      );
    });
    const left = 8 + perNode * size + 12;
    svg.replaceChildren(
      ...[
        s("text", { class: "dt-soft", x: 8, y: 14 }, "ranks on the GPUs of each node"),
        s("text", { class: "dt-soft", x: width - 4, y: 14, "text-anchor": "end" }, "network ports"),
        inOrder(nodes).map((node) => rowOf(node, yOf(node), left, size, row, now)),
        seats,
        podsOf(now, yOf, row, gap),
      ].flat(Infinity),
    );
    focused?.focus({ preventScroll: true });
  }

  const nodeOf = (seat) => Math.floor(seat / perNode);

  // A node's frame and its ports, warmer the more they carry.
  function rowOf(node, y, left, size, row, { loads, shape }) {
    const most = Math.max(...loads.NIC.out, ...loads.NIC.in, 1e-12);
    const each = (row - 20) / shape.nics;
    const strips = inOrder(shape.nics).map((i) => {
      const number = node * shape.nics + i;
      const load = Math.max(loads.NIC.out[number], loads.NIC.in[number]);
      const top = y + 7 + i * each;
      return [
        s("rect", {
          class: "dt-port",
          style: `--dt-strength: ${Math.round((85 * load) / most)}%`,
          x: left,
          y: top,
          width: width - left - 4,
          height: each - 1.5,
          rx: 3,
        }),
        s(
          "text",
          { class: "dt-port-text", x: (left + width - 4) / 2, y: top + each / 2 + 3.5, "text-anchor": "middle" },
          formatQuantity(load * spec.n, "B", 3),
        ),
      ];
    });
    const frame = s("rect", {
      class: "dt-node-frame",
      x: 4,
      y: y + 1,
      width: perNode * size + 8,
      height: row - 8,
      rx: 10,
    });
    return [frame, strips];
  }

  function podsOf({ loads, shape, betas }, yOf, row, gap) {
    const pods = loads.pod.out.length;
    if (pods < 2) return [];
    return inOrder(pods).map((pod) => {
      const y = yOf((pod + 1) * shape.podNodes - 1) + row;
      const bytes = Math.max(loads.pod.out[pod], loads.pod.in[pod]) * spec.n;
      const words = `out of pod ${pod}: ${formatQuantity(bytes, "B", 3)}`;
      const time = width < 480 ? "" : `, ${formatQuantity(bytes / betas.pod, "s", 3)}`;
      return [
        s("line", { class: "dt-axis", x1: 4, x2: width - 4, y1: y + gap - 6, y2: y + gap - 6 }),
        s("text", { class: "dt-soft", x: width - 4, y: y + 11, "text-anchor": "end" }, words + time),
      ];
    });
  }

  reset();
  return stop;
}

export default { render };
