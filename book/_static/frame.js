// The frame of a page: colours, where the reader is, what has been read, the map, search by a key,
// copies of code, and folds that open when a link leads into them.
(() => {
  const root = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const MODES = { auto: "as the system", light: "light", dark: "dark" };

  function offerColours() {
    const button = document.querySelector("[data-mode-switch]");
    const say = () => {
      button.title = `Colours: ${MODES[root.dataset.mode]}`;
      button.setAttribute("aria-label", button.title);
    };
    // The first press always changes what is seen.
    const order = root.dataset.theme === "dark" ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
    button.addEventListener("click", () => {
      const next = order[(order.indexOf(root.dataset.mode) + 1) % order.length];
      globalThis.dtMode(next);
      try {
        localStorage.setItem("mode", next);
      } catch {
        /* as in a private window: the choice holds for this page */
      }
      say();
    });
    say();
  }

  // A chapter counts as read once its end has been seen.
  function markRead() {
    const chapter = document.body.dataset.chapter;
    const end = document.querySelector(".turn");
    const show = () => {
      const read = new Set(dtKept.read("dtlib-read"));
      for (const place of all("[data-read]")) {
        place.classList.toggle("is-read", read.has(place.dataset.read));
      }
    };
    dtKept.watch(show);
    show();
    if (!chapter || !end) return;
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      dtKept.write("dtlib-read", [...new Set([...(dtKept.read("dtlib-read") ?? []), chapter])]);
    });
    watcher.observe(end);
  }

  function followReader() {
    const links = new Map(all(".contents a").map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
    const heads = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
    let here = null;
    let waiting = false;
    const locate = () => {
      waiting = false;
      const past = heads.filter((head) => head.getBoundingClientRect().top < innerHeight * 0.3);
      const link = links.get(past.at(-1)?.id) ?? null;
      if (link === here) return;
      here?.removeAttribute("aria-current");
      link?.setAttribute("aria-current", "location");
      here = link;
    };
    const soon = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(locate);
    };
    addEventListener("scroll", soon, { passive: true });
    soon();
  }

  function closeMap(except) {
    for (const part of all(".part[open]")) if (!part.contains(except)) part.open = false;
  }

  function hearKeys() {
    const field = document.querySelector(".find input");
    addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        document.querySelector(".part[open] > summary")?.focus();
        closeMap(null);
      }
      const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
      const asked = event.key === "k" && (event.ctrlKey || event.metaKey);
      if (!asked && (event.key !== "/" || typing)) return;
      event.preventDefault();
      field.focus();
      field.select();
    });
    document.addEventListener("click", (event) => closeMap(event.target));
  }

  // The search comes when somebody is about to search.
  function offerSearch() {
    const form = document.querySelector(".find");
    const come = () => import(new URL(form.dataset.script, document.baseURI)).catch(console.error);
    form.addEventListener("focusin", come, { once: true });
  }

  function offerCopies() {
    if (!navigator.clipboard) return;
    for (const code of all(".cell_input .highlight, article > section .highlight-python > .highlight")) {
      if (code.querySelector(".copy")) continue;
      const copy = Object.assign(document.createElement("button"), {
        type: "button",
        className: "copy",
        textContent: "Copy",
      });
      copy.addEventListener("click", async () => {
        await navigator.clipboard.writeText(code.querySelector("pre").textContent.trimEnd());
        copy.textContent = "Copied";
        setTimeout(() => (copy.textContent = "Copy"), 1500);
      });
      code.append(copy);
    }
  }

  function unfold() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const fold = target && target.closest("details");
    if (!fold || fold.open) return;
    for (let box = fold; box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView();
  }

  function start() {
    offerColours();
    markRead();
    followReader();
    hearKeys();
    offerSearch();
    offerCopies();
    addEventListener("hashchange", unfold);
    unfold();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
