// One collective, or two of them one after the other: what every rank holds before, between and after.

const PLAY_MS = 900;

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const met = spec.task
    ? new Function(...spec.task.names, `"use strict"; return ${spec.task.js};`)
    : null;
  const state = { first: 0, then: -1, P: 4 };
  let width = 0;
  let moving = Infinity;
  let chunk = null;

  const page = frame(el, {
    title: spec.title,
    task: spec.task,
    hint:
      "Choose with the mouse, or Tab to a row and use the arrow keys. " +
      "Point at a piece, or press ← and → on the figure, to see where it comes from.",
    reset,
  });
  const svg = s("svg", {
    class: "dt-plot dt-arrows",
    role: "img",
    tabindex: "0",
    onkeydown: step,
    onblur: () => follow(null),
  });
  const choices = [
    choice("first", spec.arrows.map(({ name }) => name), (i) => set({ first: i })),
    choice("then", ["nothing", ...spec.arrows.map(({ name }) => name)], (i) => set({ then: i - 1 })),
  ];
  page.stage.before(h("div", { class: "dt-arrow-choices" }, ...choices.map((c) => c.element)));
  page.stage.append(svg);
  const ranks = slider(spec.ranks, (P) => set({ P }), String);
  const button = (text, onclick) =>
    h("button", { type: "button", class: "dt-button", onclick }, text);
  page.controls.append(
    ranks.element,
    h("div", {}, button("▶ Play", play), " ", button("⇄ Transpose", transpose)),
  );
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  const chosen = () =>
    [state.first, state.then].filter((i) => i >= 0).map((i) => spec.arrows[i]);
  const tables = () => spec.tables[state.P];

  function set(changes) {
    Object.assign(state, changes);
    moving = Infinity;
    update();
  }

  function reset() {
    Object.assign(state, spec.start);
    ranks.set(spec.ranks.index);
    set({});
  }

  // The transpose of "first, then" is the transpose of "then", then the transpose of "first".
  function transpose() {
    const order = [state.first, state.then].filter((i) => i >= 0).reverse();
    const [first, then = -1] = order.map((i) => spec.arrows[i].adjoint);
    set({ first, then });
    play();
  }

  function play() {
    const last = chosen().length;
    if (calm()) return;
    let begun = 0;
    moving = 0;
    const next = (now) => {
      begun ||= now;
      if (moving > last) return;
      moving = (now - begun) / PLAY_MS;
      if (moving >= last) moving = Infinity;
      if (width) draw();
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  }

  function update() {
    choices[0].set(state.first);
    choices[1].set(state.then + 1);
    const said = verdictOf();
    if (width) draw();
    page.task?.set(Boolean(met(...taskValues())));
    page.say(said);
  }

  function taskValues() {
    const arrows = chosen();
    const sum = arrows.length > 1 ? together(tables(), arrows) : null;
    const all = spec.everywhere;
    const isAllReduce = sum && sum.before === all && sum.after === all;
    return [Number(Boolean(isAllReduce)), sum ? sum.times : 0, sum ? arrows[0].after : -1];
  }

  function verdictOf() {
    const [first, then] = chosen();
    const where = ({ before, after }) => `from ${spec.places[before]} to ${spec.places[after]}`;
    const other = spec.arrows[first.adjoint].name;
    if (!then) {
      const itself = other === first.name;
      return `${sentence(first.name)}: ${where(first)}. Its transpose is ${itself ? "itself" : other}.`;
    }
    const sum = together(tables(), [first, then]);
    if (!sum) {
      return (
        `No fit: ${first.name} leaves the pieces ${spec.places[first.after]}, and ` +
        `${then.name} takes them from ${spec.places[then.before]}.`
      );
    }
    const match = spec.arrows.find((a) => a.before === sum.before && a.after === sum.after);
    const what = match ? match.name : "what was there before";
    const times = sum.times > 1 ? `${sum.times} times ` : "";
    return `${sentence(first.name)}, then ${then.name}: together ${times}${what}.`;
  }

  function draw() {
    const arrows = chosen();
    const states = played(tables(), arrows) ?? played(tables(), arrows.slice(0, 1));
    const P = state.P;
    const area = layout(states.length, P);
    svg.setAttribute("viewBox", `0 0 ${width} ${area.height}`);
    svg.setAttribute("height", area.height);
    svg.setAttribute("aria-label", verdictOf());
    const ways = states.slice(1).map((_, k) => {
      const { before, after } = arrows[k];
      return waysOf(k, tables()[before], tables()[after], area);
    });
    const nodes = ways.map(({ lines }) => lines);
    for (let r = 0; r < P; r++) {
      const y = area.y(r) + area.cell / 2 + 4;
      nodes.push(s("text", { x: 0, y }, width < 480 ? r : `rank ${r}`));
    }
    const titles = ["before", ...arrows.map(({ name }) => `after ${name}`)];
    states.forEach((held, k) => {
      const title = { x: area.x(k, 0), y: 13, class: "dt-arrow-title" };
      if (width >= 480) nodes.push(s("text", title, titles[k]));
      else nodes.push(s("text", title, k ? `after ${k}` : "before"));
      held.forEach((row, r) => row.forEach((counts, c) => nodes.push(cellOf(k, r, c, counts, area))));
    });
    svg.replaceChildren(...nodes.flat(Infinity), ...ways.flatMap(({ dots }) => dots));
  }

  function layout(stages, P) {
    const left = width < 480 ? 16 : 56;
    const gap = width < 480 ? 22 : 70;
    const room = (width - left - gap * (stages - 1)) / (stages * P);
    const cell = Math.min(room, 44);
    const row = Math.min(cell, 34) + 14;
    return {
      cell: Math.min(cell, 34),
      wide: cell,
      x: (stage, c) => left + stage * (P * cell + gap) + c * cell,
      y: (r) => 24 + r * row,
      height: 24 + P * row,
    };
  }

  function cellOf(k, r, c, counts, { x, y, cell, wide }) {
    const hidden = k > moving;
    const on = counts && !hidden;
    const label = letters(counts);
    const size = Math.min(13, (1.55 * wide) / Math.max(2, label.length));
    const box = {
      x: x(k, c) + 1,
      y: y(r),
      width: wide - 2,
      height: cell,
      rx: 4,
      class: `dt-part dt-c${c % 4} ${on ? "is-held" : ""} ${chunk === c ? "is-on" : ""}`,
      onpointerenter: () => follow(c),
      onpointerleave: () => follow(null),
    };
    const text = {
      x: x(k, c) + wide / 2,
      y: y(r) + cell / 2 + size / 3,
      "text-anchor": "middle",
      style: `font-size:${size.toFixed(1)}px`,
      class: "dt-part-text",
    };
    return [s("rect", box), on ? s("text", text, label) : []];
  }

  function follow(c) {
    if (chunk === c) return;
    chunk = c;
    draw();
  }

  // From the keyboard, the next chunk or the one before.
  function step(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    follow((state.P + (chunk ?? (by > 0 ? -1 : 0)) + by) % state.P);
  }

  // Who a piece comes from: lines for the piece under the pointer, dots for all while it plays.
  function waysOf(k, before, after, { x, y, cell, wide }) {
    const t = moving - k;
    const lines = [];
    const dots = [];
    before.forEach((row, src) =>
      row.forEach((holds, c) => {
        if (!holds) return;
        after.forEach((wants, dst) => {
          if (!wants[c]) return;
          const [x1, y1] = [x(k, c) + wide / 2, y(src) + cell / 2];
          const [x2, y2] = [x(k + 1, c) + wide / 2, y(dst) + cell / 2];
          if (chunk === c) {
            lines.push(s("line", { x1, y1, x2, y2, class: `dt-arrow-line dt-c${c % 4}` }));
          }
          if (t >= 0 && t < 1) {
            const [cx, cy] = [x1 + t * (x2 - x1), y1 + t * (y2 - y1)];
            dots.push(s("circle", { cx, cy, r: 5, class: `dt-arrow-dot dt-c${c % 4}` }));
          }
        });
      }),
    );
    return { lines, dots };
  }

  reset();
  return () => {
    stop();
    moving = Infinity;
  };
}

// A row of radio buttons: one Tab stop, arrow keys within.
function choice(legend, names, choose) {
  const group = uniqueId(legend);
  const inputs = names.map((_, i) =>
    h("input", { type: "radio", name: group, onchange: () => choose(i) }),
  );
  const labels = names.map((name, i) => h("label", { class: "dt-arrow-choice" }, inputs[i], name));
  const element = h("fieldset", {}, h("legend", {}, legend), labels);
  const set = (index) => {
    inputs[index].checked = true;
  };
  return { element, set };
}

export default { render };
