// The figure of a schedule at one moment. A scene has the schedule, the states that it goes through,
// how many rounds are done, which message is dropped, how far its chunks have moved (0 to 1), the
// bytes n of a message and the least possible bytes, the width in pixels, and `go` and `follow`,
// which a press and a pointer call.

const rect = (x, y, width, height, more) => s("rect", { x, y, width, height, ...more });
const words = (x, y, text, more) => s("text", { x, y, class: "dt-soft", ...more }, text);
const UNTOUCHABLE = { "pointer-events": "none" };

function stepperFigure(scene) {
  const at = stepperLayout(scene);
  const parts = [bands, headings, cells, sentBars, lanes, arrows];
  const nodes = parts.map((part) => part(scene, at));
  return { height: at.total, nodes, ranks: rankNames(scene, at) };
}

// Side by side with room: ranks, chunks, bytes sent, lanes. On a phone the last two stand below.
function stepperLayout({ schedule: { P, chunks }, width }) {
  const wide = width >= 600;
  const row = P <= 4 ? 50 : P <= 8 ? 38 : 27;
  const left = wide ? 60 : 26;
  const room = wide ? Math.min((width - left) * 0.56, chunks * 76 + 130) : width - left;
  const pitch = Math.min(room / chunks, 230);
  const gutter = clamp(pitch * 0.18, 5, 46);
  const height = P * row;
  const grid = { x: left, y: 26, pitch, gutter, cell: pitch - 2 * gutter };
  const bar = {
    x: wide ? left + pitch * chunks + 14 : left,
    y: wide ? 26 : 26 + height + 52,
  };
  bar.width = Math.min((width - bar.x) * 0.38, 120);
  const lane = { x: bar.x + bar.width + 24, y: bar.y };
  lane.width = width - lane.x - 8;
  const inner = row - (row > 30 ? 12 : 7);
  return { wide, row, left, grid, bar, lane, height, inner, total: bar.y + height + 46 };
}

const middleOf = (top, rank, at) => top + (rank + 0.5) * at.row;
const eachRank = ({ schedule }, draw) =>
  Array.from({ length: schedule.P }, (_, rank) => draw(rank));
const isDropped = ({ dropped }, t, i) => Boolean(dropped && dropped[0] === t && dropped[1] === i);

function bands(scene, at) {
  const tops = at.wide ? [at.grid.y] : [at.grid.y, at.bar.y];
  return tops.map((top) =>
    eachRank(scene, (rank) =>
      rect(0, top + rank * at.row, scene.width, at.row, {
        class: "dt-band",
        "data-ranks": rank,
        onpointerenter: () => scene.follow(rank),
        onpointerleave: () => scene.follow(null),
      }),
    ),
  );
}

function rankNames(scene, at) {
  const name = (top) => (rank) =>
    words(at.left - 10, middleOf(top, rank, at) + 4.5, at.wide ? `rank ${rank}` : rank, {
      class: "dt-rank",
      "text-anchor": "end",
    });
  return [eachRank(scene, name(at.grid.y)), at.wide ? [] : eachRank(scene, name(at.bar.y))];
}

function headings({ schedule: { chunks } }, { grid, bar, lane }) {
  const name = (chunk) => {
    if (chunks === 1) return "the whole message";
    return chunks <= 4 && grid.pitch > 60 ? `chunk ${chunk}` : chunk;
  };
  return [
    Array.from({ length: chunks }, (_, chunk) =>
      words(grid.x + (chunk + 0.5) * grid.pitch, 16, name(chunk), { "text-anchor": "middle" }),
    ),
    words(bar.x, bar.y - 10, "sent so far"),
    words(lane.x, lane.y - 10, "port busy"),
  ];
}

// What each rank holds of each chunk: one slot for each contributor, filled when it is in the sum.
function cells(scene, at) {
  const { schedule, states, done, dropped } = scene;
  const moving = scene.moving < 1;
  const before = states[Math.max(0, done - 1)];
  const intact = dropped ? playSchedule(schedule)[done] : null;
  return (moving ? before : states[done]).map((row, rank) =>
    row.map((counts, chunk) => {
      const goal = schedule.goal[rank][chunk];
      return cell(at, rank, chunk, counts, {
        complete: schedule.wanted[rank][chunk] && sameCounts(counts, goal),
        lost: intact && !moving && !sameCounts(counts, intact[rank][chunk]),
        before: moving ? counts : before[rank][chunk],
      });
    }),
  );
}

function cell({ grid, row, inner }, rank, chunk, counts, { complete, lost, before }) {
  const x = grid.x + chunk * grid.pitch + grid.gutter;
  const y = grid.y + rank * row + (row - inner) / 2;
  const slot = (grid.cell - 4) / counts.length;
  const gap = slot > 5 ? 1.5 : 0.5;
  const look = `dt-cell${complete ? " is-complete" : ""}${lost ? " is-lost" : ""}`;
  const part = (count, k) => {
    const left = x + 2 + k * slot;
    const width = Math.max(slot - gap, 0.8);
    const kind = partKind(count, count !== before[k]);
    const name = count > 1 ? `${k}×${count}` : k;
    return [
      rect(left, y + 2, width, inner - 4, { class: `dt-part ${kind}`, rx: Math.min(2, slot / 4) }),
      slot < 9
        ? null
        : words(left + width / 2, y + inner / 2 + 4, name, {
            class: `dt-part-name ${kind}`,
            "text-anchor": "middle",
          }),
    ];
  };
  const sign = { class: "dt-lost-sign", "text-anchor": "middle" };
  return s(
    "g",
    { class: look, ...UNTOUCHABLE },
    rect(x, y, grid.cell, inner, { class: "dt-cell-box", rx: 4 }),
    counts.map(part),
    lost ? words(x + grid.cell + 1, y + 5, "✕", sign) : null,
  );
}

function partKind(count, fresh) {
  if (count > 1) return "is-double";
  if (!count) return "is-empty";
  return fresh ? "is-fresh" : "is-held";
}

function sentBars(scene, at) {
  const { schedule, n, bound } = scene;
  const { bar } = at;
  const bytes = (chunks) => (chunks / schedule.parts) * n;
  const sent = chunksSent(schedule, scene.done, scene.dropped).map(bytes);
  const whole = chunksSent(schedule, schedule.rounds.length).map(bytes);
  const size = (value) => (value / Math.max(...whole, bound ?? 0)) * bar.width;
  const bars = sent.map((value, rank) => {
    const y = middleOf(bar.y, rank, at) - 4;
    return [
      rect(bar.x, y, size(whole[rank]), 8, { class: "dt-bar-all", rx: 2, ...UNTOUCHABLE }),
      rect(bar.x, y, size(value), 8, { class: "dt-bar-sent", rx: 2, ...UNTOUCHABLE }),
    ];
  });
  if (!bound) return bars;
  const x = bar.x + size(bound);
  const below = bar.y + at.height;
  const legend = ["least possible", formatQuantity(bound, "B", 3)].map((text, line) =>
    words(Math.max(x + 6, bar.x + 86), below + 18 + 16 * line, text, {
      class: "dt-ink",
      "text-anchor": "end",
    }),
  );
  const line = s("line", { class: "dt-bound", x1: x, x2: x, y1: bar.y - 4, y2: below + 4 });
  return [bars, line, legend];
}

// When each rank's port is busy: sending above, receiving below. A round is pressed to go there.
function lanes(scene, at) {
  const { schedule, done } = scene;
  const { lane } = at;
  const ends = [0];
  for (const time of schedule.times) ends.push(ends[ends.length - 1] + time);
  const all = ends[ends.length - 1];
  const place = (time) => lane.x + (time / all) * lane.width;
  const blocks = schedule.rounds.map((round, t) => {
    const [x, end] = [place(ends[t]), place(ends[t + 1])];
    const when = t + 1 === done ? "is-now" : t < done ? "is-past" : "is-next";
    return s(
      "g",
      { class: `dt-round ${when}` },
      rect(x, lane.y, end - x, at.height, {
        class: "dt-round-hit",
        onclick: () => scene.go(t + 1),
      }),
      eachRank(scene, (rank) => busyPort(scene, t, rank, x + 0.5, Math.max(end - x - 1, 0.6), at)),
    );
  });
  const now = place(ends[done]);
  const below = lane.y + at.height;
  return [
    blocks,
    s("line", { class: "dt-cursor", x1: now, x2: now, y1: lane.y - 4, y2: below + 4 }),
    words(lane.x, below + 18, "0"),
    words(lane.x + lane.width, below + 18, formatQuantity(all, "s", 3), { "text-anchor": "end" }),
    rect(lane.x, below + 26, 12, 8, { class: "dt-lane-send", rx: 1.5 }),
    words(lane.x + 16, below + 34, "sends"),
    rect(lane.x + 58, below + 26.5, 12, 7, { class: "dt-lane-get", rx: 1.5 }),
    words(lane.x + 74, below + 34, "receives"),
  ];
}

function busyPort(scene, t, rank, x, width, at) {
  const y = middleOf(at.lane.y, rank, at);
  const round = scene.schedule.rounds[t].filter((_, i) => !isDropped(scene, t, i));
  const look = (name) => ({ class: name, "data-ranks": rank, rx: 1.5 });
  const sends = round.some(([src]) => src === rank);
  const gets = round.some(([, dst]) => dst === rank);
  return [
    sends ? rect(x, y - 9, width, 8, look("dt-lane-send")) : null,
    gets ? rect(x + 0.5, y + 1.5, Math.max(width - 1, 0.4), 7, look("dt-lane-get")) : null,
  ];
}

// The messages of the round that was just done. Those that go down bend to the right of their
// chunk's column, those that go up to its left.
function arrows(scene, at) {
  if (!scene.done) return [];
  const t = scene.done - 1;
  return scene.schedule.rounds[t].map((send, i) =>
    Array.from({ length: send[4] }, (_, k) =>
      arrow(scene, at, send, send[2] + k, isDropped(scene, t, i)),
    ),
  );
}

function arrow({ schedule, moving }, at, [src, dst], chunk, dropped) {
  const { grid } = at;
  const side = dst > src ? 1 : -1;
  const column = grid.x + (chunk + 0.5) * grid.pitch;
  const edge = column + (side * grid.cell) / 2;
  const reach = schedule.chunks > 2 ? 1.2 : 0.6 + (0.7 * Math.abs(dst - src)) / schedule.P;
  const bend = edge + side * grid.gutter * reach;
  const nudge = Math.min(6, at.inner / 5) * side;
  const [y0, y1] = [middleOf(grid.y, src, at) + nudge, middleOf(grid.y, dst, at) - nudge];
  const path = `M${edge} ${y0}C${bend} ${y0} ${bend} ${y1} ${edge + side * 4} ${y1}`;
  return s(
    "g",
    {
      class: `dt-message${dropped ? " is-dropped" : ""}`,
      "data-ranks": `${src} ${dst}`,
      ...UNTOUCHABLE,
    },
    s("path", { class: "dt-arrow", d: path }),
    s("path", { class: "dt-arrow-head", d: `M${edge} ${y1}l${side * 6} -3.6v7.2z` }),
    dropped ? cross(bend, (y0 + y1) / 2) : null,
    moving < 1 && !dropped ? token(edge, bend, y0, y1, moving, at.inner) : null,
  );
}

const cross = (x, y) =>
  s("path", { class: "dt-cross", d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` });

// A chunk on its way along the arrow's curve, slow at both ends.
function token(edge, bend, y0, y1, moving, inner) {
  const t = moving * moving * (3 - 2 * moving);
  const x = edge + (bend - edge) * 3 * t * (1 - t);
  const y = y0 + (y1 - y0) * t * t * (3 - 2 * t);
  const size = clamp(inner * 0.42, 6, 16);
  return rect(x - size / 2, y - size / 2, size, size, { class: "dt-token", rx: 3 });
}
