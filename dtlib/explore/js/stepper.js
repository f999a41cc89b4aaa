// A schedule, one round at a time. Every rank is a row: what it holds of each chunk, what it has
// sent, and when its port is busy. Rows, arrows, messages and lanes share one highlight.

const ROUND_MS = 900;
const MOVING_MS = 540;

function render({ model, el }) {
  const spec = model.get("spec");
  const view = { which: 0, done: spec.done, dropped: null, rank: null, playing: 0, moving: 1 };
  const schedule = () => spec.schedules[view.which];
  const met = spec.task
    ? new Function("done", "rounds", "wrong", "dropped", `"use strict"; return ${spec.task.js};`)
    : null;
  let states = [];
  let width = 0;

  const page = frame(el, { title: spec.title, task: spec.task, hint: hintOf(spec), reset });
  const chooser = spec.schedules.length > 1 ? scheduleChooser(spec, choose) : null;
  if (chooser) page.stage.before(chooser.element);
  const ranks = rankHandle(move);
  const svg = s("svg", { class: "dt-plot dt-stepper" });
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  const button = (text, name, onclick, look = "") =>
    h(
      "button",
      { type: "button", class: `dt-button ${look}`, "aria-label": name, title: name, onclick },
      text,
    );
  const back = button("‹ Back", "One round back", () => go(view.done - 1));
  const play = button("▶ Play", "Play", togglePlay, "is-primary dt-play");
  const step = button("Step ›", "One round on", advance);
  const scrub = h("input", {
    type: "range",
    class: "dt-range dt-scrub",
    min: 0,
    step: 1,
    "aria-label": "Rounds done",
    oninput: () => go(+scrub.value),
  });
  const clock = h("span", { class: "dt-value" });
  page.controls.classList.add("dt-transport");
  page.controls.append(back, play, step, scrub, clock);

  const heading = h("p", { class: "dt-sends-title" });
  const sends = h("ul", { class: "dt-sends" });
  const verdict = h("div", { class: "dt-verdict", role: "status" });
  page.readout.append(heading, sends, verdict);

  function choose(which) {
    const done = Math.min(view.done, spec.schedules[which].rounds.length);
    Object.assign(view, { which, done, dropped: null });
    replay();
  }

  function reset() {
    pause();
    Object.assign(view, { which: 0, done: spec.done, dropped: null, rank: null, moving: 1 });
    chooser?.reset();
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
    if (view.moving < 1) requestAnimationFrame(moveFrom);
  }

  function moveFrom(start) {
    const frameAt = (now) => {
      if (view.moving >= 1) return;
      view.moving = Math.min(1, (now - start) / MOVING_MS);
      if (width) draw();
      requestAnimationFrame(frameAt);
    };
    frameAt(start);
  }

  function togglePlay() {
    if (view.playing) return pause();
    if (view.done === schedule().rounds.length) go(0);
    view.playing = setInterval(() => {
      advance();
      if (view.done === schedule().rounds.length) pause();
    }, ROUND_MS);
    namePlay();
    advance();
  }

  function pause() {
    clearInterval(view.playing);
    view.playing = 0;
    namePlay();
  }

  function namePlay() {
    play.textContent = view.playing ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", view.playing ? "Pause" : "Play");
  }

  function drop(t, i) {
    view.dropped = isDropped(view, t, i) ? null : [t, i];
    replay();
  }

  function update() {
    const now = schedule();
    const total = now.rounds.length;
    const wrong = wrongCells(states[total], now.goal, now.wanted).length;
    const progress = `${view.done} of ${plural(total, "round")}`;
    scrub.max = total;
    scrub.value = view.done;
    scrub.style.setProperty("--dt-fill", view.done / total);
    scrub.setAttribute("aria-valuetext", `${progress} done`);
    back.disabled = view.done === 0;
    step.disabled = view.done === total;
    clock.textContent = `${progress}, ${formatQuantity(elapsed(), "s", 3)}`;
    listSends(now);
    showVerdict(now);
    if (width) draw();
    if (met) page.task.set(Boolean(met(view.done, total, wrong, view.dropped?.[0] ?? -1)));
    page.say(summary(now, progress, wrong));
  }

  function elapsed() {
    const past = schedule().times.slice(0, view.done);
    return past.reduce((sum, time) => sum + time, 0);
  }

  // The messages of the round that was just done; before the first one, those that come.
  function listSends(now) {
    const t = Math.max(0, view.done - 1);
    const round = now.rounds[t];
    const facts = [`${view.done ? "Round" : "Next: round"} ${t}`, plural(round.length, "message")];
    heading.textContent = [...facts, formatQuantity(now.times[t], "s", 3)].join(", ");
    const focused = [...sends.querySelectorAll("button")].indexOf(document.activeElement);
    sends.replaceChildren(...round.map((send, i) => sendItem(now, send, t, i)));
    sends.querySelectorAll("button")[focused]?.focus();
  }

  function sendItem(now, send, t, i) {
    const text = describeSend(send);
    const off = isDropped(view, t, i);
    const press = {
      type: "button",
      "aria-pressed": String(off),
      title: off ? "Send it again" : "Drop this message",
      onclick: () => drop(t, i),
    };
    const chip = h(
      now.breaks.length ? "button" : "span",
      {
        class: "dt-chip",
        onpointerenter: () => highlight(send),
        onpointerleave: () => follow(null),
        ...(now.breaks.length ? press : {}),
      },
      off ? h("s", {}, text) : text,
    );
    return h("li", { "data-ranks": `${send[0]} ${send[1]}` }, chip);
  }

  // What the checker says of the schedule as it stands; the message stays while nothing changes.
  function showVerdict(now) {
    const [t, i] = view.dropped ?? [];
    const said = view.dropped ? now.breaks[t][i] : now.verdict;
    const key = said ? `${view.which} ${view.dropped} ${said}` : "";
    if (verdict.dataset.key === key) return;
    verdict.dataset.key = key;
    const dropped = view.dropped
      ? `Without ${describeSend(now.rounds[t][i])} in round ${t}, the`
      : "The";
    const parts = [h("p", {}, h("strong", {}, `${dropped} checker says`)), h("pre", {}, said)];
    const again = button("Send it again", "Send it again", () => drop(t, i));
    verdict.replaceChildren(...(said ? parts : []), ...(view.dropped ? [again] : []));
  }

  function summary(now, progress, wrong) {
    const cells = now.wanted.flat().filter(Boolean).length;
    const right = cells - wrongCells(states[view.done], now.goal, now.wanted).length;
    const sent = Math.max(...chunksSent(now, view.done, view.dropped)) / now.parts;
    const said = [
      `${sentence(now.label)}: ${progress} done after ${formatQuantity(elapsed(), "s", 3)}`,
      `; ${right} of ${plural(cells, "chunk")} complete`,
      `; the busiest rank has sent ${formatQuantity(sent * spec.n, "B", 3)}.`,
    ];
    if (spec.bound) {
      said.push(` No all-reduce can do with less than ${formatQuantity(spec.bound, "B", 3)}.`);
    }
    if (view.dropped) {
      said.push(` One message of round ${view.dropped[0]} is dropped: `);
      said.push(`${plural(wrong, "chunk")} will end wrong.`);
    }
    return said.join("");
  }

  // Highlight a rank: its row, its messages, its lane. Null ends every highlight.
  function follow(rank) {
    view.rank = rank;
    mark((of) => rank !== null && of.includes(rank));
  }

  // Highlight one message: the rows and lanes of its ranks, its arrow and its name.
  function highlight([src, dst]) {
    mark((of) =>
      of.length === 1 ? of[0] === src || of[0] === dst : of[0] === src && of[1] === dst,
    );
  }

  function mark(isOn) {
    let any = false;
    for (const node of page.root.querySelectorAll("[data-ranks]")) {
      const on = isOn(node.dataset.ranks.split(" ").map(Number));
      node.classList.toggle("is-on", on);
      any ||= on;
    }
    page.root.classList.toggle("has-highlight", any);
  }

  function move(key) {
    const last = schedule().P - 1;
    const next = {
      ArrowDown: view.rank === null ? 0 : view.rank + 1,
      ArrowUp: view.rank === null ? last : view.rank - 1,
      Home: 0,
      End: last,
      Escape: null,
    }[key];
    if (next === undefined) return false;
    view.rank = next === null ? null : clamp(next, 0, last);
    draw();
    return true;
  }

  function draw() {
    const now = schedule();
    const { done, dropped, moving } = view;
    const scene = { schedule: now, states, done, dropped, moving, n: spec.n, bound: spec.bound };
    const figure = stepperFigure({ ...scene, width, go, follow });
    svg.setAttribute("viewBox", `0 0 ${width} ${figure.height}`);
    svg.setAttribute("height", figure.height);
    ranks.show(now, states[done], view.rank, figure.ranks);
    const focused = document.activeElement === ranks.element;
    svg.replaceChildren(...[figure.nodes, ranks.element].flat(Infinity).filter(Boolean));
    if (focused) ranks.element.focus({ preventScroll: true });
    follow(view.rank);
  }

  replay();
  return () => {
    stop();
    pause();
  };
}

function hintOf(spec) {
  const breakable = spec.schedules.some((schedule) => schedule.breaks.length);
  return [
    "Step with the buttons or the slider.",
    "Point at a rank, or Tab to the ranks and use the arrow keys, to follow it.",
    breakable ? "Press a message to drop it." : "",
  ].join(" ");
}

// The ranks' names are one control: arrow keys choose the rank to follow, Escape ends it.
function rankHandle(move) {
  const element = s("g", {
    class: "dt-ranks",
    role: "slider",
    tabindex: "0",
    "aria-label": "Follow a rank",
    "aria-orientation": "vertical",
    "aria-valuemin": 0,
    onkeydown: (event) => {
      if (move(event.key)) event.preventDefault();
    },
  });
  return {
    element,
    show(schedule, state, rank, names) {
      element.replaceChildren(...names.flat());
      element.setAttribute("aria-valuemax", schedule.P - 1);
      element.setAttribute("aria-valuenow", rank ?? 0);
      const complete = (rank) =>
        schedule.goal[rank].filter((goal, chunk) => sameCounts(state[rank][chunk], goal)).length;
      const text =
        rank === null
          ? "none followed"
          : `rank ${rank}, ${complete(rank)} of ${plural(schedule.chunks, "chunk")} complete`;
      element.setAttribute("aria-valuetext", text);
    },
  };
}

// Radio buttons with each schedule's time as a bar, and its rounds and bytes in words.
function scheduleChooser(spec, choose) {
  const name = uniqueId("schedule");
  const totals = spec.schedules.map(({ times }) => times.reduce((sum, time) => sum + time, 0));
  const inputs = spec.schedules.map((_, i) =>
    h("input", { type: "radio", name, checked: i === 0, onchange: () => choose(i) }),
  );
  const items = spec.schedules.map((schedule, i) => {
    const sent =
      (Math.max(...chunksSent(schedule, schedule.rounds.length)) / schedule.parts) * spec.n;
    const facts = [
      `${formatQuantity(totals[i], "s", 3)} in ${plural(schedule.rounds.length, "round")}`,
      `busiest rank sends ${formatQuantity(sent, "B", 3)}`,
    ];
    const share = (100 * totals[i]) / Math.max(...totals);
    return h(
      "label",
      { class: "dt-choice" },
      inputs[i],
      h("span", { class: "dt-choice-name" }, schedule.label),
      h("span", { class: "dt-choice-bar" }, h("span", { style: `width:${share}%` })),
      h("span", { class: "dt-choice-facts" }, facts.join(", ")),
    );
  });
  const legend = h("legend", { class: "dt-hidden" }, "Schedule");
  return {
    element: h("fieldset", { class: "dt-choices" }, legend, items),
    reset() {
      inputs[0].checked = true;
    },
  };
}

const plural = (count, what) => `${formatQuantity(count)} ${what}${count === 1 ? "" : "s"}`;

export default { render };
