// Ranks on a logarithmic ruler. Axes are blocks that the reader puts in order, the containers' walls
// can be dragged, and every block shows how long its traffic needs through the wall that binds it.

const LONGEST = 100;
const SHORTEST = 1e-3;

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const names = ["traffic", "members", "container", "uplink"];
  const boundaryTime = new Function(...names, `"use strict"; return ${spec.js};`);
  const met = spec.task
    ? new Function(...spec.task.names, `"use strict"; return ${spec.task.js};`)
    : null;
  const state = { order: [], node: 0, pod: 0, sharing: 1, taper: 1 };
  const total = spec.axes.reduce((product, { size }) => product * size, 1);
  let width = 0;
  let held = null;

  const page = frame(el, {
    title: spec.title,
    task: spec.task,
    hint:
      "Drag a block to another place, or a wall by its knob. " +
      "With the keyboard: Tab to a block or a knob, then the arrow keys.",
    reset,
  });
  const svg = s("svg", { class: "dt-plot dt-placing" });
  page.stage.append(svg);
  const sliders = spec.sliders.map((control) =>
    slider(control, (value) => {
      state[control.name] = value;
      setWall("node", state.node);
    }),
  );
  page.controls.append(...sliders.map(({ element }) => element));
  const rows = spec.axes.map(rowOf);
  const sum = h("div", { class: "dt-row dt-sum" }, h("strong", {}, "together"), h("span", {}));
  page.readout.append(...rows.map(({ element }) => element), sum);
  const blocks = spec.axes.map((axis, index) =>
    grip(`${axis.name}, place from the inside`, (key) => shift(index, key)),
  );
  const walls = ["node", "pod"].map((name) =>
    grip(`GPUs in a ${name}`, (key) => push(name, key)),
  );
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    Object.assign(state, { ...spec.start, order: [...spec.start.order] });
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    update();
  }

  const scene = (order = state.order) =>
    placed(spec.axes, order, levelsOf(state, spec.links), boundaryTime);

  function shift(index, key) {
    const from = state.order.indexOf(index);
    const last = state.order.length - 1;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last }[key];
    if (to === undefined) return false;
    state.order = moved(state.order, from, clamp(to, 0, last));
    update();
    return true;
  }

  function push(name, key) {
    const to = { ArrowLeft: state[name] / 2, ArrowRight: state[name] * 2 }[key];
    if (to === undefined) return false;
    setWall(name, to);
    return true;
  }

  // Walls stay in order, and a node is no smaller than the GPUs that share a port.
  function setWall(name, ranks) {
    const low = name === "node" ? Math.max(2, state.sharing) : state.node * 2;
    const high = name === "node" ? Math.max(low, state.pod / 2) : total;
    state[name] = clamp(2 ** Math.round(Math.log2(ranks)), low, high);
    state.pod = Math.max(state.pod, 2 * state.node);
    update();
  }

  function update() {
    const places = scene();
    const levels = levelsOf(state, spec.links);
    const time = totalOf(places);
    const others = ordersOf(spec.axes.length).map((order) => totalOf(scene(order)));
    const faster = others.filter((other) => other < time * (1 - 1e-9)).length;
    if (width) draw();
    for (const place of places) rows[place.index].show(place, levels);
    const verb = faster === 1 ? "order is" : "orders are";
    const rank = faster ? `${faster} other ${verb} faster` : "no order is faster";
    sum.lastChild.textContent = `${formatQuantity(time, "s", 3)}; ${rank}`;
    const { node, pod, sharing, taper } = state;
    page.task?.set(Boolean(met(time, faster, node, pod, sharing, taper)));
    const order = places.map(({ name }) => name).join(", ");
    const parts = places.map(({ name, seconds }) => `${name} ${formatQuantity(seconds, "s", 3)}`);
    page.say(
      `From the inside: ${order}. Communication in a step: ${formatQuantity(time, "s", 3)} ` +
        `(${parts.join(", ")}); ${rank}.`,
    );
  }

  const box = () => ({ left: 12, right: width - 12, knob: 64, top: 80, block: 60, bars: 184 });
  const ruler = ({ left, right }) => scaleOf(1, total, "log", left, right);

  function draw() {
    const area = box();
    const x = ruler(area);
    const places = scene();
    const levels = levelsOf(state, spec.links);
    const height = area.bars + places.length * 30 + 34;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const focused = [...blocks, ...walls].find(({ element }) => element === document.activeElement);
    places.forEach((place, i) => drawBlock(place, i, x, area));
    levels.slice(1).forEach((level, i) => drawWall(level, i, x, area));
    const doublings = Array.from({ length: Math.log2(total) + 1 }, (_, k) => 2 ** k);
    svg.replaceChildren(
      ...[
        s("text", { x: area.left, y: 14 }, `Out of a GPU: ${rate(levels[0])}. Out of a`),
        blocks.map(({ element }) => element),
        doublings.map((ranks) => tick(ranks, x, area)),
        walls.map(({ element }) => element),
        bars(places, area),
      ].flat(Infinity),
    );
    focused?.element.focus({ preventScroll: true });
  }

  const rate = ({ ranks, uplink }) => formatQuantity(uplink / ranks, "B/s", 3);

  function drawBlock(place, i, x, { top, block }) {
    const [from, to] = [x(place.stride), x(place.end)];
    const middle = (from + to) / 2;
    const text = (dy, words, look = "") =>
      s("text", { class: look, x: middle, y: top + dy, "text-anchor": "middle" }, words);
    const seconds = formatQuantity(place.seconds, "s", 3);
    blocks[place.index].show(i + 1, [1, spec.axes.length], `place ${i + 1}, ${seconds}`, [
      s("rect", {
        class: `dt-block dt-c${place.index}`,
        x: from + 2,
        y: top,
        width: to - from - 4,
        height: block,
        rx: 8,
      }),
      text(22, `${place.name} ${place.size}`, "dt-block-name"),
      text(42, formatQuantity(place.traffic, "B", 3), "dt-block-bytes"),
    ]);
  }

  // Every wall has its label in a line of its own, to its right where there is room.
  function drawWall(level, i, x, { left, right, top, block, knob }) {
    const at = x(level.ranks);
    const line = 14 + 17 * (i + 1);
    const words = `${level.name} of ${level.ranks}: ${rate(level)} each`;
    const from = Math.max(left, Math.min(at + 9, right - words.length * 6.5));
    const limits = i ? [2 * state.node, total] : [Math.max(2, state.sharing), state.pod / 2];
    const high = from < at ? line + 5 : line - 12;
    walls[i].show(level.ranks, limits, `${level.ranks} GPUs`, [
      s("line", { class: "dt-wall", x1: at, x2: at, y1: high, y2: top + block + 12 }),
      s("circle", { class: "dt-handle", cx: at, cy: knob, r: 9 }),
      s("text", { class: "dt-halo", x: from, y: line }, words),
    ]);
  }

  function tick(ranks, x, { top, block }) {
    const every = width < 480 ? 8 : 2;
    const show = Math.log2(ranks) % Math.log2(every) === 0;
    return [
      s("line", { class: "dt-axis", x1: x(ranks), x2: x(ranks), y1: top + block + 4, y2: top + block + 9 }),
      show
        ? s("text", { class: "dt-soft", x: x(ranks), y: top + block + 25, "text-anchor": "middle" }, String(ranks))
        : [],
    ];
  }

  function bars(places, { left, right, bars: top }) {
    const x = scaleOf(SHORTEST, LONGEST, "log", left, right);
    const bottom = top + places.length * 30;
    const marks = [1e-3, 1e-2, 0.1, 1, 10, 100];
    return [
      marks.map((at) => [
        s("line", { class: "dt-grid", x1: x(at), x2: x(at), y1: top - 8, y2: bottom }),
        s(
          "text",
          {
            class: "dt-soft",
            x: x(at),
            y: bottom + 17,
            "text-anchor": at === SHORTEST ? "start" : at === LONGEST ? "end" : "middle",
          },
          formatQuantity(at, "s"),
        ),
      ]),
      places.map((place, i) => {
        const end = x(clamp(place.seconds, SHORTEST, LONGEST));
        const y = top + i * 30;
        const label = `${place.name} ${formatQuantity(place.seconds, "s", 3)}`;
        const inside = end - left > label.length * 7.4 + 16;
        return [
          s("rect", { class: `dt-time dt-c${place.index}`, x: left, y, width: Math.max(end - left, 2), height: 22, rx: 3 }),
          s(
            "text",
            {
              class: inside ? "dt-bar-name" : "dt-bar-name dt-halo",
              x: inside ? left + 8 : end + 8,
              y: y + 16,
            },
            label,
          ),
        ];
      }),
    ];
  }

  // What a pointer took hold of: a wall's knob before a block.
  onDrag(
    svg,
    (px, py) => {
      const area = box();
      const x = ruler(area);
      held ??= grabbed(px, py, x, area);
      if (held.wall) setWall(held.wall, x.invert(clamp(px, area.left, area.right)));
      else if (held.block !== undefined) dragBlock(held.block, px, x);
    },
    () => {
      held = null;
    },
  );

  function grabbed(px, py, x, { top, block }) {
    const near = ["node", "pod"]
      .map((name) => ({ name, distance: Math.abs(px - x(state[name])) }))
      .sort((a, b) => a.distance - b.distance)[0];
    if (py < top - 2 && near.distance < 24) {
      walls[near.name === "node" ? 0 : 1].element.focus({ preventScroll: true });
      return { wall: near.name };
    }
    if (py < top - 2 || py > top + block) return {};
    const place = scene().find((one) => px >= x(one.stride) && px <= x(one.end));
    if (!place) return {};
    blocks[place.index].element.focus({ preventScroll: true });
    return { block: place.index };
  }

  // A block moves one place when the pointer has passed the middle of its neighbour.
  function dragBlock(index, px, x) {
    const places = scene();
    const from = state.order.indexOf(index);
    const middle = (place) => (x(place.stride) + x(place.end)) / 2;
    const [before, after] = [places[from - 1], places[from + 1]];
    const to = before && px < middle(before) ? from - 1 : after && px > middle(after) ? from + 1 : from;
    if (to === from) return;
    state.order = moved(state.order, from, to);
    update();
  }

  reset();
  return stop;
}

// A part of the figure that takes the keyboard's focus; arrow keys move it.
function grip(label, move) {
  const element = s("g", {
    class: "dt-piece",
    role: "slider",
    tabindex: "0",
    "aria-label": label,
    onkeydown: (event) => {
      if (move(event.key)) event.preventDefault();
    },
  });
  return {
    element,
    show(value, [low, high], text, nodes) {
      element.replaceChildren(...nodes);
      for (const [name, of] of [
        ["valuenow", value],
        ["valuemin", low],
        ["valuemax", high],
        ["valuetext", text],
      ]) {
        element.setAttribute(`aria-${name}`, of);
      }
    },
  };
}

// One axis in words: which wall binds it, and how many of its ranks are on this side of it.
function rowOf(axis, index) {
  const swatch = s(
    "svg",
    { class: `dt-swatch dt-c${index}`, viewBox: "0 0 18 14", "aria-hidden": "true" },
    s("rect", { class: "dt-region is-clear", width: 18, height: 14, rx: 3 }),
  );
  const name = h("span", { class: `dt-row-name dt-c${index}` }, swatch, ` ${axis.name}`);
  const fact = h("span", { class: "dt-row-fact" });
  const value = h("span", { class: "dt-row-value" });
  return {
    element: h("div", { class: "dt-row dt-placed" }, name, value, fact),
    show({ size, members, binding, seconds, traffic }, levels) {
      value.textContent = formatQuantity(seconds, "s", 3);
      if (binding === null) {
        fact.textContent = "one rank, nothing to send";
        return;
      }
      const level = levels[binding];
      const speed = formatQuantity(traffic / seconds, "B/s", 3);
      const inside = `${members[binding]} of ${size} in one ${level.name}`;
      fact.textContent = `bound by the ${level.name}'s wall: ${inside}, so its bytes pass at ${speed}`;
    },
  };
}

export default { render };
