// Where code can be run and judged in the page: a small script that offers it. Editors come when they
// are near or asked for, Python at the first click on Run or Check (bench.js, python.js).
(() => {
  const HERE = new URL(".", document.currentScript.src);
  const bring = (file) => import(new URL(file, HERE));
  const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "null");
  const NEAR = { rootMargin: "900px" };
  let sheet;

  // The editors' looks come with them, and before them.
  const dressed = () =>
    (sheet ??= new Promise((done, failed) => {
      const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("bench.css", HERE) });
      link.onload = done;
      link.onerror = failed;
      document.head.append(link);
    }));

  function whenNear(place, call) {
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      call();
    }, NEAR);
    watcher.observe(place);
  }

  const node = (tag, attributes, ...children) => {
    const made = Object.assign(document.createElement(tag), attributes);
    made.append(...children);
    return made;
  };

  // Who went to the foot of the page finds the way back there.
  function leadBack(foot, slug, label) {
    foot.querySelector(".dt-back")?.remove();
    foot.prepend(node("p", { className: "dt-back" }, node("a", { href: `#${slug}` }, `Back to ${label}`)));
  }

  /** The ways out: the page's notebook, and how it runs elsewhere. */
  function ways(notebook, slug, label) {
    const foot = document.getElementById("take-along");
    const all = foot && node("a", { href: "#take-along", onclick: () => leadBack(foot, slug, label) }, "other ways to run it");
    return node("p", { className: "dt-ways" }, node("a", { href: notebook, download: "" }, "notebook of this page"), ...(all ? [" · ", all] : []));
  }

  const OUTSIDE = {
    torch: "This one needs torch, which a page has not: write it in the notebook, where check judges it.",
    none: "Write it in the notebook, where check judges it.",
  };

  function offerExercise(slug, exercise, { notebook, engine }) {
    const place = document.getElementById(slug);
    if (!place) return;
    const box = node("div", { className: "dt-answer-box", role: "group", ariaLabel: `Your answer to ${exercise.label}` }, ways(notebook, slug, exercise.label));
    place.append(box);
    const why = exercise.needs ? OUTSIDE.torch : engine && exercise.code ? "" : OUTSIDE.none;
    if (why) return box.prepend(node("p", {}, why));
    const elsewhere = "The notebook of this page runs it without the page's Python.";
    whenNear(place, async () => {
      const [{ exercise: build }] = await Promise.all([bring("exercises.js"), dressed()]);
      build(slug, exercise, box, elsewhere);
      place.classList.add("has-bench");
    });
  }

  function offerCell(place, { runs, why }, { notebook, engine }) {
    const code = place.querySelector(":scope > .cell_input .highlight");
    if (!code) return;
    const open = async () => {
      const [{ open: build }] = await Promise.all([bring("cells.js"), dressed()]);
      return build(place, "The notebook of this page runs it without the page's Python.");
    };
    if (!runs || !engine) {
      if (engine && ["torch", "processes"].includes(why))
        code.append(node("a", { className: "dt-run", href: notebook, download: "", title: `It needs ${why}, which a page has not` }, "in a notebook"));
      return;
    }
    const run = async () => {
      const bench = await open();
      if (matchMedia("(hover: hover)").matches) bench.focus(); // a phone would bring its keys
      bench.run();
    };
    code.append(node("button", { className: "dt-run", type: "button", title: "Run it in the page, and change it", onclick: run }, "Run"));
    if (dtKept.read(`dtlib-code:${place.dataset.cell}`) !== null) whenNear(place, open);
  }

  function start() {
    const page = read("dt-exercises") ?? {};
    for (const [slug, exercise] of Object.entries(page.exercises ?? {}))
      if (exercise.kind === "code") offerExercise(slug, exercise, page);
    const cells = read("dt-cells") ?? {};
    for (const place of document.querySelectorAll("[data-cell]"))
      if (cells[place.dataset.cell]) offerCell(place, cells[place.dataset.cell], page);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
