// What the browser keeps of a widget under a whole name, "dtlib-bet:12.1", told to whoever shows it on
// the page. On the site `book/_static/reader/kept.js` reads, saves and erases the same; both remember in
// one place.

const EVENT = "dtlib-bet";
const MEMORY = (globalThis.dtlibKept ??= {});
const keptAt = (name) => name.replace(/^dtlib-\w+:/, "");

// Storage may be missing (a private window, a sandboxed frame): then the page remembers.
const storage = {
  read(name) {
    try {
      const text = localStorage.getItem(name);
      return text ? JSON.parse(text) : (MEMORY[name] ?? null);
    } catch {
      return MEMORY[name] ?? null;
    }
  },
  write(name, data) {
    if (data) MEMORY[name] = data;
    else delete MEMORY[name];
    try {
      if (data) localStorage.setItem(name, JSON.stringify(data));
      else localStorage.removeItem(name);
    } catch {
      /* the page remembers */
    }
    dispatchEvent(new CustomEvent(EVENT, { detail: keptAt(name) }));
  },
  // What was kept under another name until now is kept under this one from now on.
  move(old, name) {
    const data = storage.read(old);
    if (data === null || storage.read(name) !== null) return;
    storage.write(name, data);
    storage.write(old, null);
  },
};

// A widget's part `kept` says as what the browser keeps it, `as: "dtlib-bet:"` before spec.key; what of
// its state that is, and what a kept thing changes: at the start, and when another place of the page
// changes it. `was` is what its names began with before.
function keeperOf({ kept }, spec, change) {
  if (!kept) return { recall() {}, keep() {}, stop() {} };
  const name = kept.as + spec.key;
  if (kept.was) storage.move(kept.was + spec.key, name);
  const recall = () => change(kept.read(spec, storage.read(name)));
  const told = (event) => {
    if (event.detail === spec.key) recall();
  };
  addEventListener(EVENT, told);
  return {
    recall,
    keep(state) {
      const now = kept.write(spec, state);
      if (JSON.stringify(now) !== JSON.stringify(storage.read(name))) storage.write(name, now);
    },
    stop: () => removeEventListener(EVENT, told),
  };
}
