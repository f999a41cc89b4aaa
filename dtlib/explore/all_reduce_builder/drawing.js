// What is seen of ranks and their chunks: layoutOf says where, and cellAt what is there.

const WHERE = { top: 24, gap: 12, bottom: 6 }; // px

function layoutOf(P, width) {
  const [narrow, four] = [width < 480, P <= 4];
  const left = narrow ? 36 : 70;
  const row = four ? 56 : narrow ? 50 : 46;
  const pitch = (width - left) / P;
  const gutter = four ? clamp(pitch * 0.14, 7, 22) : clamp(pitch * 0.06, 2, 9);
  const [slots, lines] = four ? [P, 1] : [P / 2, 2]; // of a cell
  const cell = pitch - 2 * gutter;
  const inner = row - WHERE.gap;
  const height = WHERE.top + P * row + WHERE.bottom;
  return { narrow, left, row, pitch, gutter, slots, lines, cell, inner, width, height };
}

const cornerOf = ({ left, pitch, gutter, row }, rank, chunk) => ({
  x: left + chunk * pitch + gutter,
  y: WHERE.top + rank * row + WHERE.gap / 2,
});

// The rank and the chunk at a place; the chunk is null on a rank's name.
function cellAt({ left, pitch, row }, P, x, y) {
  const rank = Math.floor((y - WHERE.top) / row);
  const chunk = x < left ? null : Math.floor((x - left) / pitch);
  return rank >= 0 && rank < P && !(chunk >= P) ? [rank, chunk] : [null, null];
}

function draw(spec, state, seen, width) {
  const { P, done, states, messages, held, sends } = seen;
  const at = layoutOf(P, width);
  const glides = state.moving < 1 && done > 0;
  const scene = glides
    ? { held: states[done - 1], before: states[done - 1], messages: messages[done - 1], coming: [] }
    : { held, before: states[Math.max(0, done - 1)], messages: messages[done] ?? [], coming: sends };
  const ranks = upTo(P);
  return {
    height: at.height,
    label: `${P} ranks, ${P} chunks each, after ${plural(done, "round")}.`,
    marks: [
      ranks.map((chunk) => columnName(at, chunk)),
      targetOf(at, seen.hover, state),
      ranks.map((rank) => nameOf(at, rank, state)),
      ranks.map((rank) => ranks.map((chunk) => cellOf(at, scene, state, rank, chunk))),
      arrowsOf(at, scene, state.moving ?? 1),
      seen.wrong ? faultOf(at, held, seen.wrong) : null,
      handOf(at, seen.hover, state),
    ],
  };
}

const columnName = ({ narrow, left, pitch }, chunk) =>
  mark.text(
    { x: left + (chunk + 0.5) * pitch, y: 15, ...soft, ...middle },
    narrow || pitch < 60 ? chunk : `chunk ${chunk}`,
  );

const isPicked = ({ picked }, rank, chunk) =>
  picked?.rank === rank && (chunk === null || picked.chunks.includes(chunk));
const press = (state, rank, chunk, says) => ({
  set: { tap: [rank, chunk] },
  says,
  pressed: isPicked(state, rank, chunk),
  class: "dt-grab",
});

function nameOf(at, rank, state) {
  const { x, y } = { x: 1, y: cornerOf(at, rank, 0).y };
  const target = state.picked && state.picked.rank !== rank;
  const look = target
    ? { fill: ink.text, stroke: ink.text }
    : { fill: ink.paper, stroke: isPicked(state, rank, null) ? ink.text : ink.line };
  const words = at.narrow ? `${rank}` : `rank ${rank}`;
  const text = { x: x + (at.left - 6) / 2, y: y + at.inner / 2 + 4.5, ...middle, ...bold };
  return mark.g(
    press(state, rank, null, `rank ${rank}`),
    mark.rect({ x, y, width: at.left - 6, height: at.inner, rx: 6, ...look }),
    mark.text({ ...text, fill: target ? ink.paper : ink.text }, target ? `→ ${rank}` : words),
  );
}

function cellOf(at, { held, before, coming }, state, rank, chunk) {
  const { x, y } = cornerOf(at, rank, chunk);
  const now = held[rank][chunk];
  const comes = coming
    .filter(([, dst, what]) => dst === rank && what === chunk)
    .map(([src]) => held[src][chunk]);
  const parts = now.map((count, k) => {
    const place = slotOf(at, x, y, k);
    if (count) return partOf(at, place, k, isWhole(now) ? "whole" : before[rank][chunk][k] ? "held" : "new");
    return comes.some((counts) => counts[k]) ? partOf(at, place, k, "coming") : null;
  });
  const edge = isPicked(state, rank, chunk)
    ? { stroke: ink.text, "stroke-width": 3 }
    : { stroke: isWhole(now) ? ink.fourth : ink.line };
  return mark.g(
    press(state, rank, chunk, `rank ${rank}, chunk ${chunk}: ${lettersOf(now)}`),
    mark.rect({ x: x - 1.5, y: y - 1.5, width: at.cell + 3, height: at.inner + 3, rx: 5, fill: ink.paper, ...edge }),
    parts,
  );
}

// The place of one contributor's part in a cell: in one line, or eight in two.
function slotOf({ cell, inner, slots, lines }, x, y, k) {
  const [width, height] = [cell / slots, inner / lines];
  return { x: x + (k % slots) * width, y: y + Math.floor(k / slots) * height, width, height };
}

const PARTS = {
  held: { fill: ink.forward, paint: ink.paper },
  new: { fill: ink.communication, paint: ink.onCommunication },
  whole: { fill: ink.fourth, paint: ink.onCommunication },
  wrong: { fill: ink.backward, paint: ink.onCommunication },
  coming: { fill: ink.communication, paint: ink.communicationText },
};

function partOf(at, { x, y, width, height }, k, look) {
  const { fill, paint: letters } = PARTS[look];
  const pale = look === "coming" ? { "fill-opacity": 0.18, stroke: ink.communicationText, "stroke-dasharray": "3 2" } : {};
  const size = clamp(width * 0.75, 11, 16);
  const box = { x: x + 0.5, y: y + 0.5, width: Math.max(width - 1, 1), height: height - 1, rx: 2.5 };
  const text = { x: x + width / 2, y: y + height / 2 + size * 0.33, "font-size": size, "font-weight": 600 };
  return [
    mark.rect({ ...box, fill, ...pale }),
    mark.text({ ...text, ...middle, fill: letters }, "abcdefgh"[k]),
  ];
}

// Messages from rank to rank, down at the right of their chunk's column, up at its left.
// The paper below all arrows comes first, so that none is cut by its neighbour's.
function arrowsOf(at, { messages }, moving) {
  const arrows = messages.flatMap(([src, dst, first, , count]) =>
    upTo(count).map((i) => arrowOf(at, src, dst, first + i)),
  );
  return [
    arrows.map(({ d }) => mark.path({ d, fill: "none", stroke: ink.paper, "stroke-width": 4.5 })),
    arrows.map(({ d, head, ends }) => [
      mark.path({ d, fill: "none", stroke: ink.communicationText, "stroke-width": 2 }),
      mark.path({ d: head, fill: ink.communicationText }),
      moving < 1 ? onItsWay(...ends, moving, at.inner * 0.4) : null,
    ]),
  ];
}

function arrowOf(at, src, dst, chunk) {
  const side = dst > src ? 1 : -1;
  const edge = at.left + (chunk + 0.5) * at.pitch + side * (at.cell / 2 - 1);
  const bend = edge + side * at.gutter * (1.1 + 0.25 * Math.abs(dst - src));
  const [from, to] = [src, dst].map((rank, end) => {
    const nudge = (end ? -1 : 1) * side * Math.min(7, at.inner / 5);
    return cornerOf(at, rank, 0).y + at.inner / 2 + nudge;
  });
  return { ...bentArrow(edge, bend, from, to), ends: [edge, bend, from, to] };
}

// The letters that would count twice, where they are and where they would come to; or the cell.
function faultOf(at, held, { what, send: [src, dst, chunk], twice = [] }) {
  const { x, y } = cornerOf(at, dst, chunk);
  const box = { x: x - 3, y: y - 3, width: at.cell + 6, height: at.inner + 6, rx: 7 };
  return [
    [src, dst].map((rank) => {
      const corner = cornerOf(at, rank, chunk);
      return twice.map((k) => partOf(at, slotOf(at, corner.x, corner.y, k), k, "wrong"));
    }),
    mark.rect({ class: `dt-fault is-${what}`, ...box, fill: "none", stroke: ink.backward, "stroke-width": 3 }),
  ];
}

// The row of the rank that the finger is over.
function targetOf(at, hover, { held: hand }) {
  if (!hover) return null;
  const colour = hover.sends ? ink.fourth : ink.backward;
  const row = { x: 0, y: WHERE.top + hand.over * at.row, width: at.width, height: at.row, rx: 8 };
  return mark.rect({ ...row, fill: colour, "fill-opacity": 0.14, stroke: colour, "stroke-width": 2 });
}

// What is in the hand.
function handOf(at, hover, { held: hand }) {
  if (!hand?.moved) return null;
  const colour = !hover ? ink.communicationText : hover.sends ? ink.fourthText : ink.backwardText;
  return [
    hand.chunks.map((chunk) => {
      const { x, y } = cornerOf(at, hand.rank, chunk);
      const line = { x1: x + at.cell / 2, y1: y + at.inner / 2, x2: hand.x, y2: hand.y };
      return mark.line({ ...line, stroke: colour, "stroke-width": 2.5, "stroke-dasharray": "5 4" });
    }),
    mark.circle({ cx: hand.x, cy: hand.y, r: 6, fill: colour }),
  ];
}

// The reader's way through latencies and buffers, round by round, and the algorithms as points.

const MAP = { width: 320, height: 226, left: 34, right: 308, top: 24, bottom: 184 };

function mapOf({ P, plans, states, messages, done }, { buffers, latencies }, reached) {
  const [most, least] = [4 * Math.log2(P) + (P > 4 ? 4 : 0), plans.least];
  const across = scaleOf(0, most, "linear", MAP.left, MAP.right);
  const up = scaleOf(0, P > 4 ? 8 : 7, "linear", MAP.bottom, MAP.top);
  const high = (value) => Math.max(MAP.top, up(value));
  const steps = upTo(done + 1).map((t) => [latenciesOf(P, messages.slice(0, t)), buffersOf(P, messages.slice(0, t))]);
  const [px, py] = [steps.map(([k]) => Math.min(MAP.right, across(k))), steps.map(([, v]) => high(v))];
  const corner = [across(least.latencies), up(least.buffers)];
  const path = { fill: "none", stroke: ink.communicationText, "stroke-width": 2.5 };
  const aim = { stroke: ink.fourth, "stroke-width": 4, fill: "none" };
  const out = `M${MAP.left} ${MAP.top}H${corner[0]}V${corner[1]}H${MAP.right}V${MAP.bottom}H${MAP.left}z`;
  return [
    mark.path({ d: out, fill: ink.text, "fill-opacity": 0.07 }),
    mark.text({ x: (corner[0] + MAP.right) / 2, y: MAP.bottom - 8, ...soft, ...middle }, "nobody finishes here"),
    buffers === null ? null : mark.path({ d: `M${corner[0]} ${up(buffers)}H${across(latencies ?? most)}`, ...aim }),
    latencies === null ? null : mark.path({ d: `M${across(latencies)} ${corner[1]}V${buffers === null ? MAP.top : up(buffers + 1)}`, ...aim }),
    levels(upTo(P > 4 ? 5 : 4).map((i) => 2 * i), MAP.left, MAP.right, up, String),
    axisBelow(upTo(most / 4 + 1).map((i) => 4 * i), across, MAP, 18, String),
    mark.text({ x: MAP.right, y: MAP.bottom + 36, ...soft, ...end }, "latencies →"),
    mark.text({ x: 2, y: 12, ...soft }, "buffers through the busiest port"),
    mark.path({ d: pathOf(px, py), ...path }),
    plans.known.filter(({ open }) => open).map((one) => pointOf(one, across, high, most)),
    steps.map((_, t) => {
      const last = t === done;
      return mark.circle({ cx: px[t], cy: py[t], r: last ? 6.5 : 3, fill: last && reached ? ink.fourth : ink.communicationText });
    }),
  ];
}

function pointOf({ label, latencies, buffers }, across, high, most) {
  const [cx, cy, left] = [across(latencies), high(buffers), latencies > 0.7 * most];
  const above = cy === MAP.top; // the map ends there
  const words = { x: cx + (left ? -8 : 8), y: cy + (above ? 18 : -7), ...soft, ...halo, ...(left ? end : {}) };
  return [
    mark.circle({ cx, cy, r: 5, fill: ink.paper, stroke: ink.soft, "stroke-width": 2 }),
    mark.text(words, above ? `${label}: ${numberOf(buffers)} ↑` : label),
  ];
}
