// Three places, and the collectives as arrows between them: two that are pressed follow each other.
// Below, what every rank holds before, between and after.

const HINT =
  "Press an arrow, then a second one; an arrow pressed twice turns round. Press a chunk's number to " +
  "see where its pieces come from.";
const [TALL, BASE, ROUND] = [262, 204, 34];
const NAMED = 0.62; // how far along an arrow its name stands, so that no two names meet

function view(spec, { P, first, then }) {
  const arrows = [first, then].filter(Boolean).map((name) => ({ name, ...spec.arrows[name] }));
  const tables = spec.tables[P];
  const sum = arrows.length > 1 ? together(tables, arrows) : null;
  const fits = arrows.length === 1 || sum !== null;
  const isAllReduce = sum && sum.before === 2 && sum.after === 2;
  return {
    names: {
      all_reduce: Number(Boolean(isAllReduce)),
      times: sum ? sum.times : 0,
      middle: sum ? arrows[0].after : -1,
    },
    arrows,
    fits,
    states: played(tables, fits ? arrows : arrows.slice(0, 1)),
    said: verdictOf(spec, arrows, sum),
  };
}

function verdictOf({ places, arrows }, [first, then], sum) {
  if (!then) {
    const other = first.adjoint === first.name ? "itself" : first.adjoint;
    const where = `from ${places[first.before]} to ${places[first.after]}`;
    return `${sentence(first.name)}: ${where}. Its transpose is ${other}.`;
  }
  if (!sum) {
    const left = `${first.name} leaves the pieces with ${places[first.after]}`;
    return `No fit: ${left}, and ${then.name} takes them from ${places[then.before]}.`;
  }
  const match = Object.entries(arrows).find(([, a]) => a.before === sum.before && a.after === sum.after);
  const what = match ? match[0] : "what was there before";
  const times = sum.times > 1 ? `${sum.times} times ` : "";
  return `${sentence(first.name)}, then ${then.name}: together ${times}${what}.`;
}

// What a press on an arrow brings: the last one turns round, a second one follows, a third begins.
function pressed({ arrows }, { first, then }, name) {
  const turned = arrows[name].adjoint;
  if (name === (then ?? first) && turned !== name) return then ? { then: turned } : { first: turned };
  return then ? { first: name, then: null } : { then: name };
}

const draw = (...given) => [drawTriangle(...given), drawTables(...given)];

function drawTriangle(spec, state, { said, fits }, width) {
  const half = Math.min(0.36 * width, 220);
  const center = Math.min(width / 2, 330);
  const at = [[center - half, BASE], [center, ROUND + 4], [center + half, BASE]];
  return {
    height: TALL,
    label: said,
    marks: [
      Object.entries(spec.arrows).map(([name, arrow]) => {
        const place = [state.first, state.then].indexOf(name);
        const look = lookOf(place, fits);
        const from = `${name}, from ${spec.places[arrow.before]} to ${spec.places[arrow.after]}`;
        const { d, x, y } = bendOf(at[arrow.before], at[arrow.after]);
        const twice = state.first === state.then && place === 0;
        const number = twice ? "1, 2. " : place < 0 ? "" : `${place + 1}. `;
        const text = { x, y, ...middle, ...halo, ...(place < 0 ? {} : bold), fill: look.stroke };
        return mark.g(
          { set: pressed(spec, state, name), says: from, pressed: place >= 0, class: "dt-arrow" },
          mark.path({ d, fill: "none", stroke: "transparent", "stroke-width": 26 }),
          mark.path({ d, fill: "none", ...look }),
          mark.text(text, number + name),
        );
      }),
      spec.places.map((place, i) => {
        const [cx, cy] = at[i];
        return [
          mark.circle({ cx, cy, r: ROUND, fill: ink.paper, stroke: ink.text, "stroke-width": 1.6 }),
          mark.text({ x: cx, y: cy + 4, "font-size": 12, ...middle }, place.replace("the ", "")),
        ];
      }),
    ],
  };
}

function lookOf(place, fits) {
  if (place < 0) return { stroke: ink.soft, "stroke-width": 1.6 };
  const thick = { "stroke-width": 3.2 };
  if (place && !fits) return { stroke: ink.backwardText, ...thick, "stroke-dasharray": "5 4" };
  return { stroke: place ? ink.forwardText : ink.communicationText, ...thick };
}

// From one place to another in a bend to the left, with a head; from a place to itself in a loop.
function bendOf([x1, y1], [x2, y2]) {
  const point = (...pair) => pair.map((value) => value.toFixed(1)).join(" ");
  if (x1 === x2) {
    const [x, y] = [x1, y1 + ROUND];
    const turn = [point(x - 34, y + 26), point(x + 34, y + 26), point(x + 14, y - 1)];
    const d = `M${point(x - 14, y - 4)}C${turn.join(" ")}m-3 9l3 -9l8 5`;
    return { d, x: x - 62, y: y + 16 };
  }
  const flat = y1 === y2;
  const bend = flat ? 0.09 : 0.26;
  const [cx, cy] = [(x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1)];
  const along = (a, c, b) => (1 - NAMED) ** 2 * a + 2 * NAMED * (1 - NAMED) * c + NAMED ** 2 * b;
  const edge = ([px, py], room) => {
    const far = Math.hypot(cx - px, cy - py);
    return [px + ((cx - px) * room) / far, py + ((cy - py) * room) / far];
  };
  const [[ax, ay], [bx, by]] = [edge([x1, y1], ROUND + 1), edge([x2, y2], ROUND + 2)];
  const turn = Math.atan2(by - cy, bx - cx);
  const wing = (lean) => point(bx - 9 * Math.cos(turn + lean), by - 9 * Math.sin(turn + lean));
  const head = `M${wing(0.45)}L${point(bx, by)}L${wing(-0.45)}`;
  const d = `M${point(ax, ay)}Q${point(cx, cy)} ${point(bx, by)}${head}`;
  const off = flat ? (cy < y1 ? -8 : 17) : 4; // a word as long as its arrow stands beside it
  return { d, x: along(x1, cx, x2), y: along(y1, cy, y2) + off };
}

// What every rank holds: `a` is what rank 0 held, `ab` a sum.
function drawTables(spec, state, { arrows, states }, width) {
  const { P, done, moving = 1, chunk = null } = state;
  const [left, gap] = width < 480 ? [16, 22] : [56, 70];
  const wide = Math.min((width - left - gap * (states.length - 1)) / (states.length * P), 44);
  const tall = Math.min(wide, 34);
  const x = (stage, c) => left + stage * (P * wide + gap) + c * wide;
  const y = (rank) => 42 + rank * (tall + 14);
  const shown = moving < 1 ? done - 1 : done;
  const titles = ["before", ...arrows.map(({ name }, i) => `after ${width < 480 ? i + 1 : name}`)];
  const at = { x, y, wide, tall };
  return {
    height: y(P) + 2,
    label: "What every rank holds of every chunk.",
    marks: [
      states[0].map((_, rank) =>
        mark.text({ x: 0, y: y(rank) + tall / 2 + 4, ...soft }, width < 480 ? rank : `rank ${rank}`),
      ),
      states.map((held, k) => [
        mark.text({ x: x(k, 0), y: 13, ...bold }, titles[k]),
        held[0].map((_, c) => headOf(k, c, chunk, at)),
        held.map((row, rank) =>
          row.map((counts, c) =>
            cellOf(k <= shown ? counts : null, c, chunk, { x: x(k, c), y: y(rank), wide, tall }),
          ),
        ),
      ]),
      states.slice(1).map((_, k) => waysOf(spec.tables[P], arrows[k], k, { ...state, moving, chunk }, at)),
    ],
  };
}

function headOf(stage, c, chunk, { x, wide }) {
  const words = { x: x(stage, c) + wide / 2, y: 33, ...soft, ...middle, ...(c === chunk ? bold : {}) };
  if (stage) return mark.text(words, c);
  const press = { set: { chunk: c === chunk ? null : c }, says: `chunk ${c}`, pressed: c === chunk };
  const box = { x: x(0, c), y: 18, width: wide, height: 24, fill: "transparent" };
  return mark.g(press, mark.rect(box), mark.text(words, c));
}

function cellOf(counts, c, chunk, { x, y, wide, tall }) {
  const box = { x: x + 1, y, width: wide - 2, height: tall, rx: 4 };
  const empty = { fill: "none", stroke: ink.line, "stroke-dasharray": "2 3" };
  if (!counts) return mark.rect({ ...box, ...empty });
  const words = letters(counts);
  const size = Math.min(13, (1.55 * wide) / Math.max(2, words.length));
  const edge = { stroke: inkOf(c), "stroke-width": c === chunk ? 2.5 : 1 };
  const look = { fill: inkOf(c), "fill-opacity": 0.22, ...edge };
  const place = { x: x + wide / 2, y: y + tall / 2 + size / 3, "font-size": size, ...middle };
  return [mark.rect({ ...box, ...look }), mark.text(place, words)];
}

// Who a piece comes from: lines for the chunk that was pressed, buffers on their way for all.
function waysOf(tables, { before, after }, stage, { moving, done, chunk }, { x, y, wide, tall }) {
  const glides = moving < 1 && done === stage + 1;
  return tables[before].flatMap((row, src) =>
    row.flatMap((holds, c) =>
      tables[after].map((wants, dst) => {
        if (!holds || !wants[c]) return null;
        const [x1, x2] = [x(stage, c) + wide / 2, x(stage + 1, c) + wide / 2];
        const [y1, y2] = [y(src) + tall / 2, y(dst) + tall / 2];
        const way = { class: "dt-way", x1, y1, x2, y2, stroke: inkOf(c), "stroke-width": 1.5 };
        const buffer = { cx: x1 + moving * (x2 - x1), cy: y1 + moving * (y2 - y1), r: 5 };
        return [
          c === chunk ? mark.line(way) : null,
          glides ? mark.circle({ ...buffer, fill: inkOf(c) }) : null,
        ];
      }),
    ),
  );
}

export default widget({
  hint: HINT,
  view,
  draw,
  changed: () => ({ done: Infinity }),
  player: {
    name: "done",
    unit: "collective",
    every: 1400,
    glide: 900,
    last: (spec, state) => view(spec, state).states.length - 1,
  },
});
