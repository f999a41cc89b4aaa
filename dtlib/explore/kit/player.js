// Something that happens step by step: back, play, step, and a slider over all steps. Playing takes
// `every` milliseconds for a step; `go(done, true)` asks for the step to be seen as it happens. A long
// run is played with several steps at a time.

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
  const step = button("Step ›", `One ${unit} on`, () => go(done + 1, true));
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
      go(done + Math.max(1, Math.round(last / LONG_RUN)), true);
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

  function show(now, most, there) {
    [done, last] = [now, most];
    element.hidden = !there;
    scrub.max = last;
    scrub.value = done;
    scrub.style.setProperty("--dt-fill", last ? done / last : 0);
    scrub.setAttribute("aria-valuetext", `${done} of ${last} ${unit}s`);
    back.disabled = done === 0;
    step.disabled = done === last;
  }

  const element = h("div", { class: "dt-transport" }, back, play, step, scrub);
  return { element, show, start, pause };
}

// A step as it happens: drawn again and again while `moving()` goes from 0 to 1 in so many
// milliseconds. It is 1 at once where nothing glides, and for who prefers no motion.
function gliderOf(duration, paint) {
  let [now, frame] = [1, 0];
  const stop = () => {
    cancelAnimationFrame(frame);
    now = 1;
  };
  const start = () => {
    if (!duration || calm()) return;
    const began = performance.now();
    const move = (time) => {
      now = clamp((time - began) / duration, 0, 1);
      if (now < 1) frame = requestAnimationFrame(move);
      paint();
    };
    move(began);
  };
  return { start, stop, moving: () => now };
}
