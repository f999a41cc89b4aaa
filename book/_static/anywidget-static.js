// Shows stored widgets on a built page: no kernel, no module loader, no other script.
// A page holds the state of its widgets; each widget's own script is imported once and drawn in
// the place where its cell displayed it.
(() => {
  const STATE = 'script[type="application/vnd.jupyter.widget-state+json"]';
  const VIEW = 'script[type="application/vnd.jupyter.widget-view+json"]';
  const modules = new Map();
  const styles = new Set();

  function modelOf(stored) {
    const state = { ...stored };
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

  // One import for all widgets that share a script.
  function moduleOf(text) {
    if (!modules.has(text)) {
      const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      modules.set(
        text,
        import(address).then((module) => module.default),
      );
    }
    return modules.get(text);
  }

  // What several kinds share stands before a seam in their sheets, and enters the page once.
  const SEAM = "/* The widget's own part. */";

  function addStyles(text) {
    for (const part of (text ?? "").split(SEAM).map((one) => one.trim())) {
      if (!part || styles.has(part)) continue;
      styles.add(part);
      document.head.append(Object.assign(document.createElement("style"), { textContent: part }));
    }
  }

  function place(view, className) {
    const host = document.createElement("div");
    host.className = className;
    view.after(host);
    return host;
  }

  async function show(view, stored) {
    if (stored?.model_module !== "anywidget") {
      place(view, "needs-kernel").textContent = "This control needs a running notebook.";
      return;
    }
    const { _esm, _css, ...state } = stored.state;
    const found = await moduleOf(_esm);
    const widget = typeof found === "function" ? await found() : found;
    const model = modelOf(state);
    addStyles(_css);
    await widget.initialize?.({ model });
    await widget.render({ model, el: place(view, "anywidget-static") });
    view.closest(".cell_output")?.querySelector(".dt-static")?.classList.add("is-replaced");
  }

  // A widget that fails leaves its static figure in place, and says so to whoever looks.
  function failed(view, error) {
    console.error(error);
    view.parentNode.querySelector(".anywidget-static")?.remove();
  }

  async function start() {
    const read = (node) => JSON.parse(node.textContent);
    const states = Object.assign(
      {},
      ...[...document.querySelectorAll(STATE)].map((n) => read(n).state),
    );
    const views = [...document.querySelectorAll(VIEW)];
    await Promise.all(
      views.map((view) => show(view, states[read(view).model_id]).catch((e) => failed(view, e))),
    );
    if (views.length && location.hash && scrollY < innerHeight) {
      document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    }
    document.documentElement.dataset.widgets = "ready";
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
