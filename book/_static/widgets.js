// Draws the widgets of a page, each when its place comes near the reader's view. A place names the
// modules, sheets and state that its widget needs; until they are there, and if one does not come,
// the static figure stands in it. No kernel, no module loader, no other script. A live place says so
// by `dt-live`, and has `widget: { spec, show(spec) }` for what knows of the reader. An address may
// name a place and the state of its widget, "#stepper-1?n=1024": a button in its head copies it.
(() => {
  const NEAR = "900px 0px"; // about a screen before it is seen
  const FILES = new URL("widgets/", document.currentScript.src || document.baseURI);
  const places = [...document.querySelectorAll(".dt-place")];
  const made = new Map();

  // What several widgets want is fetched once.
  function once(address, make) {
    if (!made.has(address)) made.set(address, make(address));
    return made.get(address);
  }

  const addressesOf = (names) =>
    names
      .split(" ")
      .filter(Boolean)
      .map((name) => new URL(name, FILES).href);

  const sheetAt = (address) =>
    new Promise((done, failed) => {
      const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: address });
      link.addEventListener("load", done);
      link.addEventListener("error", () => failed(new Error(`${address} did not come`)));
      document.head.append(link);
    });

  async function stateAt(address) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${address} did not come: ${answer.status}`);
    return answer.json();
  }

  function modelOf(state) {
    const listeners = new Map();
    const heard = (name) => [...(listeners.get(name) ?? [])];
    const set = (name, value) => {
      if (typeof name === "object") return Object.entries(name).forEach(([k, v]) => set(k, v));
      state[name] = value;
      for (const call of [...heard(`change:${name}`), ...heard("change")]) call();
    };
    return {
      get: (name) => state[name],
      set,
      on(names, call) {
        for (const name of names.split(" ")) {
          listeners.set(name, (listeners.get(name) ?? new Set()).add(call));
        }
      },
      off(names, call) {
        if (!names) return listeners.clear();
        for (const name of names.split(" ")) {
          if (call) listeners.get(name)?.delete(call);
          else listeners.delete(name);
        }
      },
      save_changes() {},
      send() {},
      widget_manager: null,
    };
  }

  async function widgetOf(modules) {
    const found = (await Promise.all(modules.map((address) => import(address)))).at(-1).default;
    return typeof found === "function" ? found() : found;
  }

  // Two places of one widget share its model, as two views in a notebook do.
  async function modelOfWidget(state, widget) {
    const model = modelOf(state);
    await widget.initialize?.({ model });
    return model;
  }

  async function draw(place) {
    const { modules, sheets, state } = place.dataset;
    const [widget, stored] = await Promise.all([
      widgetOf(addressesOf(modules)),
      once(new URL(state, document.baseURI).href, stateAt),
      ...addressesOf(sheets).map((address) => once(address, sheetAt)),
    ]);
    const model = await once(stored, () => modelOfWidget(stored, widget));
    if (place.id.startsWith("bet-")) place.removeAttribute("id"); // the widget bears it from here on
    const box = place.appendChild(document.createElement("div"));
    let stop = await widget.render({ model, el: box });
    place.widget = {
      spec: stored.spec,
      // The same widget of another spec: one with the reader's machine.
      async show(spec) {
        stop?.();
        box.replaceChildren();
        stop = await widget.render({ model: modelOf({ ...stored, spec }), el: box });
        offerLink(place, box);
      },
      take: (state) => box.linked?.take(state),
    };
    offerLink(place, box);
    place.classList.add("is-live");
    place.dispatchEvent(new CustomEvent("dt-live", { bubbles: true }));
    // Room that was kept in vain is given back where nothing that is seen moves.
    if (place.getBoundingClientRect().bottom > innerHeight) place.style.minHeight = 0;
  }

  function offerLink(place, box) {
    const reset = box.linked && box.querySelector(".dt-reset");
    if (!reset) return;
    const says = "Copy the address of this figure as it stands";
    const link = Object.assign(document.createElement("button"), {
      type: "button",
      className: "dt-button dt-link",
      textContent: "#",
      title: says,
      ariaLabel: says,
    });
    link.style.cssText = "margin-left: auto; min-width: 44px"; // a finger's width
    link.addEventListener("click", async () => {
      const { pathname, search } = location;
      history.replaceState(null, "", `${pathname}${search}#${place.id}?${box.linked.text()}`);
      await navigator.clipboard?.writeText(location.href).catch(() => {}); // it stands in the bar
      link.textContent = "✓";
      setTimeout(() => (link.textContent = "#"), 1500);
    });
    reset.before(link);
  }

  // The place that the address names, with the state that it asks for.
  async function follow() {
    const [id, state] = location.hash.slice(1).split("?");
    const place = state !== undefined && places.find((one) => one.id === id);
    if (!place) return;
    place.scrollIntoView();
    if (!place.widget) await new Promise((done) => place.addEventListener("dt-live", done, { once: true }));
    place.widget.take(state);
    place.scrollIntoView();
  }

  // A widget that does not come leaves its figure in place, and says so.
  function stay(place, error) {
    console.error(error);
    const said = document.createElement("p");
    said.className = "dt-stays";
    said.textContent =
      location.protocol === "file:"
        ? "This figure moves on a served page only: python -m http.server in the site's folder."
        : "This figure should move, but a part of it did not come. Load the page again.";
    place.querySelector(":scope > div")?.remove();
    place.append(said);
  }

  let waiting = places.length;
  const settle = () => {
    if (waiting <= 0) document.documentElement.dataset.widgets = "ready";
  };
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        watcher.unobserve(target);
        draw(target)
          .catch((error) => stay(target, error))
          .then(() => {
            waiting -= 1;
            settle();
          });
      }
    },
    { rootMargin: NEAR },
  );
  for (const place of places) watcher.observe(place);
  addEventListener("hashchange", follow);
  follow();
  settle();
})();
