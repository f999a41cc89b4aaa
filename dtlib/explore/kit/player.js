// Something that happens step by step: back, play, step, and a slider over all steps. Playing takes
// `every` milliseconds for a step, whose figure appears at once: nothing glides, so that who
// prefers no motion sees the same. A long run is played with several steps at a time.

const LONG_RUN = 150;

function playerOf({ unit, every = 400 }, go) {
  let [done, last, timer] = [0, 0, 0];
  const button = (text, name, onclick, look = "") =>
    h(
      "button",
      { type: "button", class: `dt-button ${look}`, "aria-label": name, title: name, onclick },
      text,
    );
  const back = button("‹ Back", `One ${unit} back`, () => go(done - 1));
  const play = button("▶ Play", "Play", () => (timer ? pause() : start()), "is-primary dt-play");
  const step = button("Step ›", `One ${unit} on`, () => go(done + 1));
  const scrub = h("input", {
    type: "range",
    class: "dt-range dt-scrub",
    min: 0,
    step: 1,
    "aria-label": `${sentence(unit)}s done`,
    oninput: () => go(+scrub.value),
  });

  function start() {
    if (done === last) go(0);
    timer = setInterval(() => {
      go(done + Math.max(1, Math.round(last / LONG_RUN)));
      if (done === last) pause();
    }, every);
    name();
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    name();
  }

  function name() {
    play.textContent = timer ? "❚❚ Pause" : "▶ Play";
    for (const attribute of ["aria-label", "title"])
      play.setAttribute(attribute, timer ? "Pause" : "Play");
  }

  function show(now, most) {
    [done, last] = [now, most];
    scrub.max = last;
    scrub.value = done;
    scrub.style.setProperty("--dt-fill", last ? done / last : 0);
    scrub.setAttribute("aria-valuetext", `${done} of ${last} ${unit}s`);
    back.disabled = done === 0;
    step.disabled = done === last;
  }

  return { element: h("div", { class: "dt-transport" }, back, play, step, scrub), show, pause };
}
