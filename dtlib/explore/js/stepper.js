// A schedule, one round at a time. Every rank is a row: what it holds of each chunk, what it has
// sent, and when its port is busy. Rows, arrows, messages and lanes share one highlight.

const ROUND_MS = 900;

function render({ model, el }) {
  const spec = model.get("spec");
  const met = spec.task
    ? new Function("done", "rounds", "wrong", "dropped", `"use strict"; return ${spec.task.js};`)
    : null;
  const view = { which: 0, done: spec.done, dropped: null, rank: null, playing: 0, moving: 1 };
  const schedule = () => spec.schedules[view.which];
  let states = [];
  let width = 0;

  const page = frame(el, {
    title: spec.title, task: spec.task, reset,
    hint: "Step with the buttons or the slider. Point at a rank, or Tab to the ranks and use the arrow keys, to follow it."
      + (spec.schedules.some((x) => x.breaks.length) ? " Press a message to drop it." : ""),
  });
  const chooser = spec.schedules.length > 1 ? chooserOf() : null;
  if (chooser) page.stage.before(chooser.element);

  const svg = s("svg", { class: "dt-plot dt-stepper" });
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => { width = now; draw(); });

  const button = (label, name, onclick, more = {}) =>
    h("button", { type: "button", class: "dt-button", "aria-label": name, title: name, onclick, ...more }, label);
  const play = button("▶ Play", "Play", togglePlay, { class: "dt-button is-primary dt-play" });
  const back = button("‹ Back", "One round back", () => go(view.done - 1));
  const step = button("Step ›", "One round on", () => advance());
  const scrub = h("input", {
    type: "range", class: "dt-range dt-scrub", min: 0, step: 1, "aria-label": "Rounds done",
    oninput: () => go(+scrub.value),
  });
  const clock = h("span", { class: "dt-value" });
  page.controls.classList.add("dt-transport");
  page.controls.append(back, play, step, scrub, clock);

  const heading = h("p", { class: "dt-sends-title" });
  const sends = h("ul", { class: "dt-sends" });
  const verdict = h("div", { class: "dt-verdict", role: "status" });
  page.readout.append(heading, sends, verdict);

  function chooserOf() {
    const totals = spec.schedules.map((x) => x.times.reduce((a, b) => a + b, 0));
    const name = uniqueId("schedule");
    const items = spec.schedules.map((x, i) => {
      const input = h("input", {
        type: "radio", name, value: i, checked: i === 0, onchange: () => choose(i),
      });
      const sent = Math.max(...chunksSent(x, x.rounds.length)) / x.parts;
      return h("label", { class: "dt-choice" }, input,
        h("span", { class: "dt-choice-name" }, x.label),
        h("span", { class: "dt-choice-bar", "aria-hidden": "true" },
          h("span", { style: `width:${(100 * totals[i]) / Math.max(...totals)}%` })),
        h("span", { class: "dt-choice-facts" },
          `${formatQuantity(totals[i], "s", 3)} in ${plural(x.rounds.length, "round")}, `
          + `busiest rank sends ${formatQuantity(sent * spec.n, "B", 3)}`));
    });
    return {
      element: h("fieldset", { class: "dt-choices" }, h("legend", { class: "dt-hidden" }, "Schedule"), items),
      inputs: items.map((item) => item.querySelector("input")),
    };
  }

  function choose(i) {
    Object.assign(view, { which: i, dropped: null, done: Math.min(view.done, spec.schedules[i].rounds.length) });
    replay();
  }

  function reset() {
    pause();
    Object.assign(view, { which: 0, done: spec.done, dropped: null, rank: null, moving: 1 });
    if (chooser) chooser.inputs[0].checked = true;
    replay();
  }

  function replay() {
    states = playSchedule(schedule(), view.dropped);
    update();
  }

  function go(done) {
    view.done = clamp(done, 0, schedule().rounds.length);
    view.moving = 1;
    update();
  }

  // One round on, with its chunks seen to move, unless the reader prefers no motion.
  function advance() {
    if (view.done >= schedule().rounds.length) return;
    view.done += 1;
    view.moving = calm() ? 1 : 0;
    update();
    if (view.moving < 1) requestAnimationFrame(animate);
  }

  let began = 0;
  function animate(now) {
    if (view.moving >= 1) { began = 0; return; }
    began ||= now;
    view.moving = Math.min(1, (now - began) / (ROUND_MS * 0.6));
    if (width) draw();
    if (view.moving < 1) requestAnimationFrame(animate);
    else began = 0;
  }

  function togglePlay() {
    if (view.playing) return pause();
    if (view.done === schedule().rounds.length) go(0);
    view.playing = setInterval(() => {
      advance();
      if (view.done === schedule().rounds.length) pause();
    }, ROUND_MS);
    advance();
    label();
  }

  function pause() {
    clearInterval(view.playing);
    view.playing = 0;
    label();
  }

  function label() {
    play.textContent = view.playing ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", view.playing ? "Pause" : "Play");
  }

  function drop(t, i) {
    const same = view.dropped && view.dropped[0] === t && view.dropped[1] === i;
    view.dropped = same ? null : [t, i];
    replay();
  }

  const isDropped = (t, i) => Boolean(view.dropped && view.dropped[0] === t && view.dropped[1] === i);

  function update() {
    const now = schedule();
    const total = now.rounds.length;
    scrub.max = total;
    scrub.value = view.done;
    scrub.style.setProperty("--dt-fill", view.done / total);
    scrub.setAttribute("aria-valuetext", `${view.done} of ${plural(total, "round")} done`);
    back.disabled = view.done === 0;
    step.disabled = view.done === total;
    clock.textContent = `${view.done} of ${plural(total, "round")}, ${formatQuantity(elapsed(), "s", 3)}`;
    listSends(now);
    if (width) draw();
    const wrong = wrongCells(states[total], now.goal, now.wanted);
    if (met) page.task.set(Boolean(met(view.done, total, wrong.length, view.dropped ? view.dropped[0] : -1)));
    page.say(summary(now, wrong));
  }

  const elapsed = () => schedule().times.slice(0, view.done).reduce((a, b) => a + b, 0);

  // The messages of the round that was just done; before the first one, those that come.
  const shown = () => Math.max(0, view.done - 1);

  function listSends(now) {
    const t = shown();
    const round = now.rounds[t];
    heading.textContent = `${view.done ? "Round" : "Next: round"} ${t}, ${plural(round.length, "message")}, ${formatQuantity(now.times[t], "s", 3)}`;
    const focused = sends.contains(document.activeElement)
      ? [...sends.querySelectorAll("button")].indexOf(document.activeElement) : -1;
    sends.replaceChildren(...round.map((send, i) => {
      const off = isDropped(t, i);
      const text = describeSend(send);
      const chip = now.breaks.length
        ? h("button", {
          type: "button", class: "dt-chip", "aria-pressed": String(off),
          title: off ? "Send it again" : "Drop this message", onclick: () => drop(t, i),
        }, off ? h("s", {}, text) : text)
        : h("span", { class: "dt-chip" }, text);
      chip.addEventListener("pointerenter", () => follow(null, send));
      chip.addEventListener("pointerleave", () => follow(null));
      return h("li", { "data-ranks": `${send[0]} ${send[1]}` }, chip);
    }));
    if (focused >= 0) sends.querySelectorAll("button")[focused]?.focus();
    const say = view.dropped ? now.breaks[view.dropped[0]]?.[view.dropped[1]] : now.verdict;
    const key = say ? `${view.dropped}|${say}` : "";
    if (verdict.dataset.key !== key) {
      verdict.dataset.key = key;
      verdict.replaceChildren(...(say ? verdictOf(now, say) : []));
    }
  }

  function verdictOf(now, say) {
    const [t, i] = view.dropped ?? [];
    const title = view.dropped
      ? `Without ${describeSend(now.rounds[t][i])} in round ${t}, the checker says` : "The checker says";
    return [
      h("p", {}, h("strong", {}, title)),
      h("pre", {}, say),
      view.dropped ? h("button", { type: "button", class: "dt-button", onclick: () => drop(t, i) }, "Send it again") : "",
    ];
  }

  function summary(now, wrong) {
    const cells = now.wanted.flat().filter(Boolean).length;
    const right = cells - wrongCells(states[view.done], now.goal, now.wanted).length;
    const sent = Math.max(...chunksSent(now, view.done, view.dropped)) / now.parts;
    const bound = spec.bound
      ? ` No all-reduce can do with less than ${formatQuantity(spec.bound, "B", 3)}.` : "";
    const broken = view.dropped
      ? ` One message of round ${view.dropped[0]} is dropped: ${plural(wrong.length, "chunk")} will end wrong.` : "";
    return `${sentence(now.label)}: ${view.done} of ${plural(now.rounds.length, "round")} done after ${formatQuantity(elapsed(), "s", 3)}; `
      + `${right} of ${plural(cells, "chunk")} complete; the busiest rank has sent ${formatQuantity(sent * spec.n, "B", 3)}.${bound}${broken}`;
  }

  // Highlight a rank (its row, its messages, its lane), or one message, or nothing.
  function follow(rank, send = null) {
    view.rank = rank;
    const ranks = send ? [send[0], send[1]] : rank === null ? [] : [rank];
    page.root.classList.toggle("has-highlight", ranks.length > 0);
    for (const node of page.root.querySelectorAll("[data-ranks]")) {
      const of = node.dataset.ranks.split(" ").map(Number);
      const on = send ? of.length === 2 ? of[0] === send[0] && of[1] === send[1] : ranks.includes(of[0])
        : of.includes(rank);
      node.classList.toggle("is-on", ranks.length > 0 && on);
    }
  }

  function layout(now) {
    const wide = width >= 600;
    const P = now.P;
    const row = P <= 4 ? 50 : P <= 8 ? 38 : 27;
    const left = wide ? 60 : 26;
    const gridWidth = wide ? Math.min((width - left) * 0.56, now.chunks * 76 + 130) : width - left;
    const pitch = Math.min(gridWidth / now.chunks, 230);
    const gutter = clamp(pitch * 0.18, 5, 46);
    const grid = { x: left, y: 26, pitch, cell: pitch - 2 * gutter, gutter, row, inner: row - (row > 30 ? 12 : 7) };
    const height = P * row;
    const barX = wide ? left + pitch * now.chunks + 14 : left;
    const barY = wide ? 26 : 26 + height + 52;
    const rest = width - barX - 6;
    const bar = { x: barX, y: barY, width: Math.min(rest * 0.38, 120) };
    const lane = { x: bar.x + bar.width + 24, y: barY, width: width - (bar.x + bar.width + 24) - 8 };
    return { wide, row, left, grid, bar, lane, height, total: barY + height + 46 };
  }

  function draw() {
    const now = schedule();
    const at = layout(now);
    svg.setAttribute("viewBox", `0 0 ${width} ${at.total}`);
    svg.setAttribute("height", at.total);
    const had = svg.contains(document.activeElement);
    svg.replaceChildren(...[
      rows(now, at), headings(now, at), cells(now, at), bars(now, at), lanes(now, at), arrows(now, at),
    ].flat(Infinity).filter(Boolean));
    if (had) svg.querySelector('[role="slider"]')?.focus({ preventScroll: true });
    if (view.rank !== null) follow(view.rank);
  }

  // The bands behind the rows; the rank's name is the handle of the highlight.
  function rows(now, at) {
    const bands = [at.grid.y, ...(at.wide ? [] : [at.bar.y])];
    const ranks = Array.from({ length: now.P }, (_, rank) => rank);
    const chosen = view.rank ?? 0;
    const column = s("g", {
      role: "slider", tabindex: "0", "aria-label": "Follow a rank", "aria-orientation": "vertical",
      "aria-valuemin": 0, "aria-valuemax": now.P - 1, "aria-valuenow": chosen,
      "aria-valuetext": view.rank === null ? "none followed" : rankText(now, chosen), class: "dt-ranks",
      onkeydown: (event) => {
        const next = { ArrowDown: chosen + (view.rank === null ? 0 : 1), ArrowUp: chosen - 1, Home: 0, End: now.P - 1, Escape: null }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        view.rank = next === null ? null : clamp(next, 0, now.P - 1);
        follow(view.rank);
        draw();
      },
    }, ranks.map((rank) => s("text", { x: at.left - 10, y: at.grid.y + (rank + 0.5) * at.row + 4.5, "text-anchor": "end" },
      at.wide ? `rank ${rank}` : rank)));
    return [
      bands.map((top) => ranks.map((rank) => s("rect", {
        class: "dt-band", "data-ranks": rank, x: 0, y: top + rank * at.row, width, height: at.row,
        onpointerenter: () => follow(rank), onpointerleave: () => follow(null),
      }))),
      column,
      at.wide ? null : ranks.map((rank) => s("text", {
        class: "dt-soft", x: at.left - 10, y: at.bar.y + (rank + 0.5) * at.row + 4.5, "text-anchor": "end" }, rank)),
    ];
  }

  const rankText = (now, rank) => {
    const complete = now.goal[rank].filter((goal, chunk) => sameCounts(states[view.done][rank][chunk], goal)).length;
    return `rank ${rank}, ${complete} of ${plural(now.chunks, "chunk")} complete`;
  };

  function headings(now, at) {
    const text = (x, y, words, anchor = "start") => s("text", { class: "dt-soft", x, y, "text-anchor": anchor }, words);
    const { grid } = at;
    const middle = (chunk) => grid.x + (chunk + 0.5) * grid.pitch;
    return [
      Array.from({ length: now.chunks }, (_, c) => text(middle(c), 16, now.chunks === 1 ? "the whole message" : now.chunks <= 4 && grid.pitch > 60 ? `chunk ${c}` : c, "middle")),
      at.wide ? null : text(0, 16, ""),
      text(at.bar.x, at.bar.y - 10, "sent so far"),
      text(at.lane.x, at.lane.y - 10, "port busy"),
    ];
  }

  function cells(now, at) {
    const { grid } = at;
    const state = states[view.moving < 1 ? view.done - 1 : view.done];
    const before = states[Math.max(0, view.done - 1)];
    const intact = view.dropped ? playSchedule(now)[view.done] : null;
    const slot = (grid.cell - 4) / now.P;
    return state.map((row, rank) => row.map((counts, chunk) => {
      const x = grid.x + chunk * grid.pitch + grid.gutter;
      const y = grid.y + rank * grid.row + (grid.row - grid.inner) / 2;
      const complete = now.wanted[rank][chunk] && sameCounts(counts, now.goal[rank][chunk]);
      const lost = intact && view.moving >= 1 && !sameCounts(counts, intact[rank][chunk]);
      return s("g", { class: `dt-cell${complete ? " is-complete" : ""}${lost ? " is-lost" : ""}`, "pointer-events": "none" },
        s("rect", { class: "dt-cell-box", x, y, width: grid.cell, height: grid.inner, rx: 4 }),
        counts.map((count, k) => {
          const fresh = view.moving >= 1 && view.done > 0 && count !== before[rank][chunk][k];
          const box = { x: x + 2 + k * slot, y: y + 2, width: Math.max(slot - (slot > 5 ? 1.5 : 0.5), 0.8), height: grid.inner - 4 };
          const kind = count > 1 ? "is-double" : count ? (fresh ? "is-fresh" : "is-held") : "is-empty";
          return [
            s("rect", { class: `dt-part ${kind}`, ...box, rx: Math.min(2, slot / 4) }),
            slot >= 9 ? s("text", {
              class: `dt-part-name ${kind}`, x: box.x + box.width / 2, y: y + grid.inner / 2 + 4, "text-anchor": "middle",
            }, count > 1 ? `${k}×${count}` : k) : null,
          ];
        }),
        lost ? s("text", { class: "dt-lost-sign", x: x + grid.cell + 1, y: y + 5, "text-anchor": "middle" }, "✕") : null);
    }));
  }

  function bars(now, at) {
    const { bar } = at;
    const sent = chunksSent(now, view.done, view.dropped).map((chunks) => (chunks / now.parts) * spec.n);
    const whole = chunksSent(now, now.rounds.length).map((chunks) => (chunks / now.parts) * spec.n);
    const most = Math.max(...whole, spec.bound ?? 0);
    const size = (bytes) => (bytes / most) * bar.width;
    const bound = spec.bound ? bar.x + size(spec.bound) : 0;
    return [
      sent.map((bytes, rank) => {
        const y = bar.y + (rank + 0.5) * at.row;
        return s("g", { "pointer-events": "none" },
          s("rect", { class: "dt-bar-all", x: bar.x, y: y - 4, width: Math.max(size(whole[rank]), 0.5), height: 8, rx: 2 }),
          s("rect", { class: "dt-bar-sent", x: bar.x, y: y - 4, width: size(bytes), height: 8, rx: 2 }));
      }),
      spec.bound ? s("g", { class: "dt-bound", "pointer-events": "none" },
        s("line", { x1: bound, x2: bound, y1: bar.y - 4, y2: bar.y + at.height + 4 }),
        ["least possible", formatQuantity(spec.bound, "B", 3)].map((words, line) => s("text", {
          x: Math.max(bound + 6, bar.x + 86), y: bar.y + at.height + 18 + 16 * line, "text-anchor": "end" }, words))) : null,
    ];
  }

  function lanes(now, at) {
    const { lane } = at;
    const ends = now.times.reduce((sum, time) => [...sum, sum[sum.length - 1] + time], [0]);
    const all = ends[ends.length - 1];
    const place = (time) => lane.x + (time / all) * lane.width;
    const blocks = now.rounds.map((round, t) => {
      const x = place(ends[t]) + 0.5;
      const w = Math.max(place(ends[t + 1]) - place(ends[t]) - 1, 0.6);
      const state = t + 1 === view.done ? "is-now" : t < view.done ? "is-past" : "is-next";
      return s("g", { class: `dt-round ${state}` },
        s("rect", { class: "dt-round-hit", x: x - 0.5, y: lane.y, width: w + 1, height: at.height, onclick: () => go(t + 1) }),
        Array.from({ length: now.P }, (_, rank) => {
          const y = lane.y + rank * at.row + at.row / 2;
          const sends = round.some(([src], i) => src === rank && !isDropped(t, i));
          const gets = round.some(([, dst], i) => dst === rank && !isDropped(t, i));
          return [
            sends ? s("rect", { class: "dt-lane-send", "data-ranks": rank, x, y: y - 9, width: w, height: 8, rx: 1.5 }) : null,
            gets ? s("rect", { class: "dt-lane-get", "data-ranks": rank, x: x + 0.5, y: y + 1.5, width: Math.max(w - 1, 0.4), height: 7, rx: 1.5 }) : null,
          ];
        }));
    });
    const cursor = place(ends[view.done]);
    return [
      blocks,
      s("line", { class: "dt-cursor", x1: cursor, x2: cursor, y1: lane.y - 4, y2: lane.y + at.height + 4 }),
      s("text", { class: "dt-soft", x: lane.x, y: lane.y + at.height + 18 }, "0"),
      s("text", { class: "dt-soft", x: lane.x + lane.width, y: lane.y + at.height + 18, "text-anchor": "end" }, formatQuantity(all, "s", 3)),
      s("g", { class: "dt-lane-key" },
        s("rect", { class: "dt-lane-send", x: lane.x, y: lane.y + at.height + 26, width: 12, height: 8, rx: 1.5 }),
        s("text", { class: "dt-soft", x: lane.x + 16, y: lane.y + at.height + 34 }, "sends"),
        s("rect", { class: "dt-lane-get", x: lane.x + 58, y: lane.y + at.height + 26.5, width: 12, height: 7, rx: 1.5 }),
        s("text", { class: "dt-soft", x: lane.x + 74, y: lane.y + at.height + 34 }, "receives")),
    ];
  }

  // Each message of the round, bent to the right when it goes down and to the left when it goes up.
  function arrows(now, at) {
    if (!view.done) return [];
    const { grid } = at;
    const t = view.done - 1;
    return now.rounds[t].flatMap(([src, dst, first, , count], i) =>
      Array.from({ length: count }, (_, k) => {
        const chunk = first + k;
        const down = dst > src;
        const edge = grid.x + chunk * grid.pitch + (down ? grid.pitch - grid.gutter : grid.gutter);
        const sign = down ? 1 : -1;
        const centre = (rank) => grid.y + (rank + 0.5) * grid.row;
        const reach = Math.abs(dst - src) / now.P;
        const bend = edge + sign * grid.gutter * (now.chunks > 2 ? 1.2 : 0.6 + 0.7 * reach);
        const nudge = Math.min(6, grid.inner / 5) * sign;
        const [y0, y1] = [centre(src) + nudge, centre(dst) - nudge];
        const d = `M${edge} ${y0}C${bend} ${y0} ${bend} ${y1} ${edge + sign * 4} ${y1}`;
        const off = isDropped(t, i);
        const arrow = s("path", { class: "dt-arrow", d });
        const head = s("path", { class: "dt-arrow-head", d: `M${edge} ${y1}l${sign * 6} -3.6v7.2z` });
        return s("g", { class: `dt-message${off ? " is-dropped" : ""}`, "data-ranks": `${src} ${dst}`, "pointer-events": "none" },
          arrow, head, off ? cross(bend, (y0 + y1) / 2) : null,
          view.moving < 1 && !off ? token(arrow, grid) : null);
      }));
  }

  const cross = (x, y) => s("path", { class: "dt-cross", d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10` });

  function token(arrow, grid) {
    const eased = view.moving * view.moving * (3 - 2 * view.moving);
    const point = arrow.getPointAtLength(arrow.getTotalLength() * eased);
    const size = clamp(grid.inner * 0.42, 6, 16);
    return s("rect", { class: "dt-token", x: point.x - size / 2, y: point.y - size / 2, width: size, height: size, rx: 3 });
  }

  replay();
  label();
  return () => { stop(); pause(); };
}

const plural = (count, what) => `${formatQuantity(count)} ${what}${count === 1 ? "" : "s"}`;

export default { render };
