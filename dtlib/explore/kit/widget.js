// A widget is two functions of its state. `view(spec, state)` says what follows from it: `names` for
// the task, `said` in a sentence, `rows` of numbers, `actions`, buttons. `draw(spec, state, seen, width)` says what it
// looks like: one or several { height, label, marks }. Both are pure, so that Python can run them:
// for the tests, and for the figure of a page without scripts. The rest is here, once.
//
// More, where it is needed: `player: { name, unit, every, last(spec, state) }` plays state[name] from
// 0 to `last`, and where it has `glide`, milliseconds, a step is seen with state.moving from 0 to 1;
// it is there while `shown(spec, state)`, and plays at once after a change that `begins(change)`;
// `changed(spec, state, change, before)` gives what a change of the reader's entails;
// `drag(spec, state, seen, width, { x, y, figure, from, last })` gives the change that a pointer there
// makes, which went down at `from` and was at `last` before, `drop(spec, state, seen, width)` the one
// that letting go makes; `readout` makes the rows otherwise; `near` has the sentence below the figure;
// `kept: { read(spec, stored), write(spec, state) }` says what the browser keeps (storage.js);
// `again: null` where nothing is to be reset, `lasts(state)` is what a reset leaves; `whole: true` where
// the figure says title, task and sentence itself; `beside: 240` has the controls at the left of the
// figure, in a column so wide, where there is room. A drawing with `slides: { label, words, at, last, keys }`
// is a slider itself; `keys` says what change each of them makes, or is null when none does any more.
// One with `here` says which of what can be pressed has the keyboard's place.
// `view` may say { task: { text, found }, ticked: { level: [0] } } besides: the task's words in this
// state, and the values of a choice that bear a tick.

function widget(parts) {
  const render = (place) =>
    within(place.model.get("spec").kind, (inside) => rendered(parts, inside))(place);
  return { render, still: (spec, change) => stillOf(parts, spec, change) };
}

function startOf({ player }, spec) {
  const values = spec.controls.map(({ name, values, index }) => [name, values[index]]);
  const played = player ? { [player.name]: Infinity } : {};
  return { ...played, ...Object.fromEntries(values), ...spec.start };
}

// The state with its step between the first and the last.
function settled({ player }, spec, state) {
  if (player) state[player.name] = clamp(state[player.name], 0, player.last(spec, state));
  return state;
}

// Whether the player is there.
const playedIn = ({ player }, spec, state) => Boolean(player && (player.shown?.(spec, state) ?? true));

// A change of the reader's, with what it entails.
const entailed = ({ changed }, spec, before, change) => ({
  ...changed?.(spec, { ...before, ...change }, change, before),
  ...change,
});

// Which of its values a control has: the place in a table that was made for all of them.
const placeOf = (spec, state, name) =>
  spec.controls.find((control) => control.name === name).values.indexOf(state[name]);

// Whether a task is met, by the values of its names.
function conditionOf(js) {
  let condition = null;
  let known = null;
  return (names) => {
    known ??= Object.keys(names);
    condition ??= new Function(...known, `"use strict"; return ${js};`);
    return Boolean(condition(...known.map((name) => names[name])));
  };
}

const drawingsOf = ({ draw }, spec, state, seen, width) => [
  draw(spec, state, seen, width),
].flat();

// A figure that is one slider: what its keys do is data, as its marks are.
function slidOf(svg, set) {
  let keys = {};
  svg.addEventListener("keydown", (event) => {
    const change = event.altKey || event.ctrlKey || event.metaKey ? null : keys[event.key];
    if (!change) return;
    event.preventDefault();
    svg.classList.remove("is-held");
    set(change);
  });
  return ({ label, words, at, last, keys: now }) => {
    keys = now ?? {};
    const aria = { label, valuetext: words, valuenow: at, valuemin: 0, valuemax: last, disabled: !now };
    for (const [name, value] of Object.entries(aria)) svg.setAttribute(`aria-${name}`, value);
    svg.setAttribute("role", "slider");
    svg.setAttribute("tabindex", 0);
  };
}

// The place of the figures: each is drawn anew from its marks.
function easelOf(stage, set, dragging, hold) {
  const figures = [];
  const newFigure = (figure) => {
    const svg = s("svg", { class: "dt-drawing" });
    stage.append(svg);
    const made = { svg, slid: slidOf(svg, set) };
    if (!dragging) return made;
    svg.classList.add("dt-drags");
    let [from, last] = [null, null];
    const move = (x, y) => {
      dragging.move({ x, y, figure, from: (from ??= { x, y }), last: last ?? from });
      last = { x, y };
    };
    const start = () => {
      from = last = null;
      if (svg.hasAttribute("tabindex")) svg.focus({ preventScroll: true });
      svg.classList.add("is-held"); // who holds a figure need not be shown that it has the keys
    };
    svg.addEventListener("mousedown", (event) => event.preventDefault()); // the focus stays
    svg.addEventListener("blur", () => svg.classList.remove("is-held"));
    onDrag(svg, move, start, dragging.undo, dragging.drop);
    return made;
  };
  return (drawings, width) => {
    figures.splice(drawings.length).forEach(({ svg }) => svg.remove());
    drawings.forEach(({ height, label, marks, slides, here }, i) => {
      const { svg, slid } = (figures[i] ??= newFigure(i));
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("height", height);
      svg.setAttribute("aria-label", label);
      const focused = pressables(svg).indexOf(document.activeElement);
      const inHand = gripsOf(svg).find((one) => one === document.activeElement)?.dataset.grip;
      svg.replaceChildren(...marksOf(marks).map((one) => drawn(one, set)));
      const [buttons, grips] = [pressables(svg), gripsOf(svg)];
      grips.forEach(hold);
      if (slides) slid(slides);
      else svg.setAttribute("role", buttons.length + grips.length ? "group" : "img");
      grips.find(({ dataset }) => dataset.grip === inHand)?.focus({ preventScroll: true });
      if (buttons[focused]) focusOn(buttons[here ?? focused]);
      else reachable(svg, buttons[here ?? 0]);
    });
    const total = drawings.reduce((sum, { height }) => sum + height, 0);
    stage.classList.toggle("is-low", total < innerHeight / 2);
  };
}

// What stands around the figures: controls, rows, the task, the sentence.
function panelOf(page, { readout = plainRows }, spec, set) {
  const met = spec.task ? conditionOf(spec.task.js) : null;
  const controls = spec.controls.map((control) =>
    controlOf(control, (value) => set({ [control.name]: value })),
  );
  const elements = (folded) =>
    controls.filter((_, i) => Boolean(spec.controls[i].folded) === folded).flatMap(({ element }) => element ?? []);
  page.controls.append(...elements(false), foldOf(elements(true)));
  const showActions = buttonRow(page.stage, set);
  const showRows = readout(page.readout, spec, set);
  return {
    show(state, seen) {
      spec.controls.forEach(({ name }, i) => controls[i].show(state[name], seen.ticked?.[name]));
      page.task?.set(met({ ...state, ...seen.names }), seen.task);
      showActions(seen.actions ?? []);
      showRows(seen.rows ?? [], state, seen);
      page.say(seen.said);
    },
    // Who begins to drag can go on by keys.
    focusOn(change) {
      const moved = spec.controls.findIndex(({ name }) => name in change);
      if (moved < 0) return;
      const grip = page.stage.querySelector(`[data-grip="${spec.controls[moved].name}"]`);
      (grip ?? controls[moved].element?.querySelector("input"))?.focus({ preventScroll: true });
    },
  };
}

// A drag: each move makes a change, and all are undone where the page takes the finger away.
function draggingOf({ drag, drop }, now, set, panel) {
  let before = {};
  const move = (at) => {
    const change = drag(...now(), at) ?? {};
    if (at.last === at.from) {
      [, before] = now();
      panel.focusOn(change);
    }
    set(change);
  };
  const change = () => set(drop(...now()));
  return drag ? { move, undo: () => set(before), drop: drop && change } : null;
}

function playerBelow(stage, { player }, go) {
  if (!player) return null;
  const made = playerOf(player, go);
  stage.after(made.element);
  return made;
}

function rendered(parts, { model, el }) {
  const spec = model.get("spec");
  const { hint, view, beside, near, whole, again = reset } = parts;
  el.classList.add("dt-kit");
  const page = frame(el, { title: spec.title, hint, beside, near, whole, task: spec.task, reset: again });
  let [state, seen, width] = [{}, null, Math.round(page.stage.clientWidth)]; // drawn at once

  const player = playerBelow(page.stage, parts, (done, glides = false) => {
    update({ [parts.player.name]: done });
    if (glides) glider.start();
  });
  const glider = gliderOf(parts.player?.glide, paintAll);
  const panel = panelOf(page, parts, spec, set);
  const dragging = draggingOf(parts, () => [spec, state, seen, width], set, panel);
  const paint = easelOf(page.stage, set, dragging, (node) => gripped(node, spec, state, set));
  const keeper = keeperOf(parts, spec, update);
  const unwatch = whenSized(page.stage, (now) => {
    if (now !== width) paintAll((width = now));
  });

  // What the reader does ends the playing; what the player does, not. One step on is seen as it happens.
  function set(change) {
    player?.pause();
    const next = state[parts.player?.name] + 1;
    update(entailed(parts, spec, state, change));
    if (player && change[parts.player.name] === next) glider.start();
    if (parts.player?.begins?.(change)) player.start();
    keeper.keep(state);
  }

  function reset() {
    player?.pause();
    state = { ...parts.lasts?.(state) };
    update({ ...startOf(parts, spec), ...state });
    keeper.keep(state);
  }

  function update(change) {
    glider.stop();
    state = settled(parts, spec, { ...state, ...change });
    seen = view(spec, state);
    player?.show(state[parts.player.name], parts.player.last(spec, state), playedIn(parts, spec, state));
    panel.show(state, seen);
    paintAll();
  }

  function paintAll() {
    if (!width) return;
    paint(drawingsOf(parts, spec, { ...state, moving: glider.moving() }, seen, width), width);
  }

  update(startOf(parts, spec));
  keeper.recall();
  el.linked = linkedOf(parts, spec, { now: () => state, set, reset });
  const ends = [unwatch, keeper.stop, glider.stop, () => player?.pause()];
  return () => ends.forEach((end) => end());
}
