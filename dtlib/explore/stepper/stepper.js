// A schedule, one round at a time. Every rank is a row: what it holds of each chunk, what it has
// sent, and when its port is busy. Below, the messages of the round, which can be dropped.

const LEAN = { stroke: ink.communicationText, "stroke-width": 1.8 };

const plural = (count, what) => `${formatQuantity(count)} ${what}${count === 1 ? "" : "s"}`;
const seconds = (value) => formatQuantity(value, "s", 3);
const totalOf = (times) => times.reduce((sum, time) => sum + time, 0);
const isDropped = (drop, t, i) => Boolean(drop && drop[0] === t && drop[1] === i);
const scheduleOf = (spec, { schedule = 0 }) => spec.schedules[schedule];

function view(spec, state) {
  const { done, drop = null } = state;
  const now = scheduleOf(spec, state);
  const states = playSchedule(now, drop);
  const total = now.rounds.length;
  const wrong = wrongCells(states[total], now.goal, now.wanted).length;
  const cells = now.wanted.flat().filter(Boolean).length;
  const right = cells - wrongCells(states[done], now.goal, now.wanted).length;
  const bytes = (chunks) => formatQuantity((chunks / now.parts) * spec.n, "B", 3);
  const progress = `${done} of ${plural(total, "round")}`;
  const elapsed = seconds(totalOf(now.times.slice(0, done)));
  const sent = bytes(Math.max(...chunksSent(now, done, drop)));
  const least = formatQuantity(spec.bound, "B", 3);
  return {
    names: { done, rounds: total, wrong, dropped: drop ? drop[0] : -1 },
    states,
    intact: drop ? playSchedule(now)[done] : null,
    rows: [...verdictOf(now, drop), ...racesOf(spec, bytes)],
    said:
      `${sentence(now.label)}: ${progress} done after ${elapsed}; ` +
      `${right} of ${plural(cells, "chunk")} complete; the busiest rank has sent ${sent}.` +
      (spec.bound ? ` No all-reduce can do with less than ${least}.` : "") +
      (drop
        ? ` One message of round ${drop[0]} is dropped: ${plural(wrong, "chunk")} will end wrong.`
        : ""),
  };
}

// What the checker says of the schedule as it stands.
function verdictOf(now, drop) {
  const said = drop ? now.breaks[drop[0]][drop[1]] : now.verdict;
  const without = drop ? `Without ${describeSend(now.rounds[drop[0]][drop[1]])} the` : "The";
  return said ? [[`${without} checker says`, said]] : [];
}

// Every schedule's time as a bar, where there are several.
function racesOf({ schedules }, bytes) {
  if (schedules.length === 1) return [];
  const totals = schedules.map(({ times }) => totalOf(times));
  return schedules.map((one, i) => {
    const most = bytes(Math.max(...chunksSent(one, one.rounds.length)));
    const facts = `${seconds(totals[i])} in ${plural(one.rounds.length, "round")}, ${most} sent`;
    return [one.label, facts, totals[i] / Math.max(...totals)];
  });
}

const draw = (...given) => [drawRanks(...given), drawMessages(...given)];

function drawRanks(spec, state, seen, width) {
  const { rank = null, done } = state;
  const now = scheduleOf(spec, state);
  const at = layoutOf(now, width);
  const scene = { ...state, spec, now, seen, drop: state.drop ?? null, moving: state.moving ?? 1 };
  const ranks = Array.from({ length: now.P }, (_, i) => i);
  const bands = [at.grid.y, ...(at.wide ? [] : [at.bar.y])].map((top) => {
    const band = { x: 0, y: top + rank * at.row, width, height: at.row };
    return rank === null ? null : mark.rect({ ...band, fill: ink.text, "fill-opacity": 0.08 });
  });
  return {
    height: at.total,
    label: `${now.P} ranks after ${done} of ${plural(now.rounds.length, "round")}.`,
    marks: [
      bands,
      ranks.map((one) => nameOf(one, rank, at)),
      headings(now, at),
      cellsOf(scene, at),
      sentBars(scene, at, ranks),
      lanes(scene, at, ranks),
      arrows(scene, at),
    ],
  };
}

// Side by side with room: ranks, chunks, bytes sent, lanes. On a phone the last two stand below.
function layoutOf({ P, chunks }, width) {
  const wide = width >= 600;
  const row = P <= 4 ? 50 : P <= 8 ? 38 : 27;
  const left = wide ? 60 : 26;
  const room = wide ? Math.min((width - left) * 0.56, chunks * 76 + 130) : width - left;
  const pitch = Math.min(room / chunks, 230);
  const gutter = clamp(pitch * 0.18, 5, 46);
  const height = P * row;
  const grid = { x: left, y: 26, pitch, gutter, cell: pitch - 2 * gutter };
  const bar = { x: wide ? left + pitch * chunks + 14 : left, y: wide ? 26 : 26 + height + 52 };
  bar.width = Math.min((width - bar.x) * 0.38, 120);
  const lane = { x: bar.x + bar.width + 24, y: bar.y };
  lane.width = width - lane.x - 8;
  const inner = row - (row > 30 ? 12 : 7);
  return { wide, row, left, grid, bar, lane, height, inner, total: bar.y + height + 46 };
}

const centerOf = (top, rank, at) => top + (rank + 0.5) * at.row;

// A rank's name is pressed to follow it.
function nameOf(rank, followed, at) {
  const on = rank === followed;
  const words = { x: at.left - 10, ...soft, ...end, ...(on ? bold : {}) };
  const name = at.wide ? `rank ${rank}` : rank;
  const box = { x: 0, y: at.grid.y + rank * at.row, width: at.left, height: at.row };
  return [
    mark.g(
      { set: { rank: on ? null : rank }, says: `follow rank ${rank}`, pressed: on },
      mark.rect({ ...box, fill: "transparent" }),
      mark.text({ ...words, y: centerOf(at.grid.y, rank, at) + 4.5 }, name),
    ),
    at.wide ? null : mark.text({ ...words, y: centerOf(at.bar.y, rank, at) + 4.5 }, name),
  ];
}

function headings({ chunks }, { grid, bar, lane }) {
  const name = (chunk) => (chunks <= 4 && grid.pitch > 60 ? `chunk ${chunk}` : chunk);
  return [
    Array.from({ length: chunks }, (_, chunk) => {
      const place = { x: grid.x + (chunk + 0.5) * grid.pitch, y: 16, ...soft, ...middle };
      return mark.text(place, chunks === 1 ? "the whole message" : name(chunk));
    }),
    mark.text({ x: bar.x, y: bar.y - 10, ...soft }, "sent so far"),
    mark.text({ x: lane.x, y: lane.y - 10, ...soft }, "port busy"),
  ];
}

// What each rank holds of each chunk: one slot for each contributor, filled when it is in the sum.
function cellsOf({ now, seen, done, moving }, at) {
  const glides = moving < 1;
  const before = seen.states[Math.max(0, done - 1)];
  return (glides ? before : seen.states[done]).map((row, rank) =>
    row.map((counts, chunk) =>
      cellOf(at, rank, chunk, counts, {
        complete: now.wanted[rank][chunk] && sameCounts(counts, now.goal[rank][chunk]),
        lost: seen.intact && !glides && !sameCounts(counts, seen.intact[rank][chunk]),
        before: glides ? counts : before[rank][chunk],
      }),
    ),
  );
}

function cellOf({ grid, row, inner }, rank, chunk, counts, { complete, lost, before }) {
  const x = grid.x + chunk * grid.pitch + grid.gutter;
  const y = grid.y + rank * row + (row - inner) / 2;
  const slot = (grid.cell - 4) / counts.length;
  const edge = lost
    ? { stroke: ink.backward, "stroke-width": 2, "stroke-dasharray": "4 3" }
    : complete
      ? { stroke: ink.fourth, "stroke-width": 2 }
      : { stroke: ink.line };
  const parts = counts.map((count, k) => {
    const at = { x: x + 2 + k * slot, width: Math.max(slot - (slot > 5 ? 1.5 : 0.5), 0.8) };
    const { fill, paint } = partOf(count, count !== before[k], complete);
    const opacity = { "fill-opacity": count ? null : 0.06 };
    const name = { x: at.x + at.width / 2, y: y + inner / 2 + 4, "font-size": 11.5, ...middle };
    return [
      mark.rect({ ...at, y: y + 2, height: inner - 4, rx: Math.min(2, slot / 4), fill, ...opacity }),
      slot < 9 ? null : mark.text({ ...name, fill: paint }, count > 1 ? `${k}×${count}` : k),
    ];
  });
  const sign = { x: x + grid.cell + 1, y: y + 5, ...bold, ...middle, fill: ink.backwardText };
  return mark.g(
    { class: `dt-cell${complete ? " is-complete" : ""}${lost ? " is-lost" : ""}` },
    mark.rect({ x, y, width: grid.cell, height: inner, rx: 4, fill: ink.paper, ...edge }),
    parts,
    lost ? mark.text(sign, "✕") : null,
  );
}

// A contribution that is not there, twice there, just come, or held.
function partOf(count, fresh, complete) {
  if (!count) return { fill: ink.text, paint: ink.soft };
  if (count > 1) return { fill: ink.backward, paint: ink.paper };
  if (fresh) return { fill: ink.communication, paint: ink.onCommunication };
  return { fill: complete ? ink.fourth : ink.forward, paint: ink.paper };
}

function sentBars({ spec, now, done, drop }, at, ranks) {
  const { bar } = at;
  const bytes = (chunks) => (chunks / now.parts) * spec.n;
  const sent = chunksSent(now, done, drop).map(bytes);
  const whole = chunksSent(now, now.rounds.length).map(bytes);
  const size = scaleOf(0, Math.max(...whole, spec.bound ?? 0), "linear", 0, bar.width);
  const bars = ranks.map((rank) => {
    const place = { x: bar.x, y: centerOf(bar.y, rank, at) - 4, height: 8, rx: 2 };
    return [
      mark.rect({ ...place, width: size(whole[rank]), fill: ink.text, "fill-opacity": 0.09 }),
      mark.rect({ ...place, width: size(sent[rank]), fill: ink.communication }),
    ];
  });
  if (!spec.bound) return bars;
  const [x, below] = [bar.x + size(spec.bound), bar.y + at.height];
  const line = { x1: x, x2: x, y1: bar.y - 4, y2: below + 4, stroke: ink.text };
  const words = ["least possible", formatQuantity(spec.bound, "B", 3)].map((text, i) =>
    mark.text({ x: Math.max(x + 6, bar.x + 86), y: below + 18 + 16 * i, "font-size": 12, ...end }, text),
  );
  return [bars, mark.line({ ...line, "stroke-width": 1.4, "stroke-dasharray": "4 3" }), words];
}

// When each rank's port is busy: sending above, receiving below. A round is pressed to go there.
function lanes(scene, at, ranks) {
  const { now, done } = scene;
  const { lane } = at;
  const ends = now.times.reduce((all, time) => [...all, all[all.length - 1] + time], [0]);
  const whole = ends[ends.length - 1];
  const across = scaleOf(0, whole, "linear", lane.x, lane.x + lane.width);
  const [here, below] = [across(ends[done]), lane.y + at.height];
  const rounds = now.rounds.map((_, t) => {
    const [x, width] = [across(ends[t]), across(ends[t + 1]) - across(ends[t])];
    const opacity = t + 1 === done ? 1 : t < done ? 0.75 : 0.3;
    const hit = { x, y: lane.y, width, height: at.height, fill: ink.text };
    return mark.g(
      { set: { done: t + 1 }, opacity },
      mark.rect({ ...hit, "fill-opacity": t + 1 === done ? 0.09 : 0 }),
      ranks.map((rank) => portOf(scene, t, rank, x + 0.5, Math.max(width - 1, 0.6), at)),
    );
  });
  const key = { y: below + 26, width: 12, height: 8, rx: 1.5 };
  return [
    rounds,
    mark.line({ x1: here, x2: here, y1: lane.y - 4, y2: below + 4, stroke: ink.text }),
    mark.text({ x: lane.x, y: below + 18, ...soft }, "0"),
    mark.text({ x: lane.x + lane.width, y: below + 18, ...soft, ...end }, seconds(whole)),
    mark.rect({ ...key, x: lane.x, fill: ink.communication }),
    mark.text({ x: lane.x + 16, y: below + 34, ...soft }, "sends"),
    mark.rect({ ...key, x: lane.x + 58, fill: "none", stroke: ink.communicationText }),
    mark.text({ x: lane.x + 74, y: below + 34, ...soft }, "receives"),
  ];
}

function portOf({ now, drop, rank: followed = null }, t, rank, x, width, at) {
  const y = centerOf(at.lane.y, rank, at);
  const round = now.rounds[t].filter((_, i) => !isDropped(drop, t, i));
  const look = { rx: 1.5, opacity: followed === null || followed === rank ? null : 0.3 };
  const get = { ...look, fill: "none", stroke: ink.communicationText, "stroke-width": 1.2 };
  return [
    round.some(([src]) => src === rank)
      ? mark.rect({ ...look, x, y: y - 9, width, height: 8, fill: ink.communication })
      : null,
    round.some(([, dst]) => dst === rank)
      ? mark.rect({ ...get, x: x + 0.5, y: y + 1.5, width: Math.max(width - 1, 0.4), height: 7 })
      : null,
  ];
}

// The messages of the round that was just done. Those that go down bend to the right of their
// chunk's column, those that go up to its left.
function arrows(scene, at) {
  const t = scene.done - 1;
  return (scene.now.rounds[t] ?? []).map((send, i) =>
    Array.from({ length: send[4] }, (_, k) =>
      arrow(scene, at, send, send[2] + k, isDropped(scene.drop, t, i)),
    ),
  );
}

function arrow({ now, moving, rank = null }, at, [src, dst], chunk, dropped) {
  const { grid } = at;
  const side = dst > src ? 1 : -1;
  const edge = grid.x + (chunk + 0.5) * grid.pitch + (side * grid.cell) / 2;
  const reach = now.chunks > 2 ? 1.2 : 0.6 + (0.7 * Math.abs(dst - src)) / now.P;
  const bend = edge + side * grid.gutter * reach;
  const nudge = Math.min(6, at.inner / 5) * side;
  const [y0, y1] = [centerOf(grid.y, src, at) + nudge, centerOf(grid.y, dst, at) - nudge];
  const { d, head } = bentArrow(edge, bend, y0, y1);
  const [x, y] = [bend, (y0 + y1) / 2];
  const gone = dropped ? { "stroke-dasharray": "2 4", "stroke-opacity": 0.6 } : {};
  const cross = { d: `M${(x - 5).toFixed(1)} ${(y - 5).toFixed(1)}l10 10m0 -10l-10 10`, stroke: ink.backwardText };
  return mark.g(
    { class: "dt-message", opacity: rank === null || rank === src || rank === dst ? null : 0.18 },
    mark.path({ d, fill: "none", ...LEAN, ...gone }),
    dropped
      ? mark.path({ ...cross, "stroke-width": 2.2 })
      : mark.path({ d: head, fill: ink.communicationText }),
    moving < 1 && !dropped ? onItsWay(edge, bend, y0, y1, moving, at.inner * 0.42) : null,
  );
}

// The messages in words; one that is pressed is dropped. Before the first round, those that come.
function drawMessages(spec, { done, drop = null, ...state }, seen, width) {
  const now = scheduleOf(spec, state);
  const t = Math.max(0, done - 1);
  const [high, gap] = width < 560 ? [44, 6] : [32, 6];
  let [x, y] = [0, 28];
  const chips = now.rounds[t].map((send, i) => {
    const words = describeSend(send);
    const wide = 7.4 * words.length + 22;
    if (x && x + wide > width) [x, y] = [0, y + high + gap];
    const off = isDropped(drop, t, i);
    const press = { set: { drop: off ? null : [t, i] }, says: words, pressed: off };
    const box = { x: x + 1, y, width: wide - 2, height: high - 2, rx: 15 };
    const edge = off ? { stroke: ink.backwardText, "stroke-dasharray": "4 3" } : { stroke: ink.line };
    const name = { x: x + wide / 2, y: y + high / 2 + 4, ...middle };
    const look = off ? { fill: ink.backwardText, "text-decoration": "line-through" } : {};
    x += wide + gap;
    return mark.g(
      now.breaks.length ? press : {},
      mark.rect({ ...box, fill: "transparent", ...edge }),
      mark.text({ ...name, ...look }, words),
    );
  });
  const words = `${done ? "Round" : "Next: round"} ${t}, ${plural(chips.length, "message")}`;
  return {
    height: y + high + 4,
    label: `Messages of round ${t}.`,
    marks: [mark.text({ x: 0, y: 16, ...bold }, `${words}, ${seconds(now.times[t])}`), chips],
  };
}

export default widget({
  hint: "Press a rank to follow it, and a message to drop it; again, to let go.",
  view,
  draw,
  changed: (spec, state, { schedule }) => (schedule === undefined ? {} : { drop: null }),
  player: {
    name: "done",
    unit: "round",
    every: 900,
    glide: 540,
    last: (spec, state) => scheduleOf(spec, state).rounds.length,
  },
});
