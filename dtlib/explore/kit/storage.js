// What the reader bet, kept in the browser under a key, and told to whoever shows it on the page.
// On the site `book/_static/reader/kept.js` reads, saves and erases the same; both remember in one place.

const EVENT = "dtlib-bet";
const MEMORY = (globalThis.dtlibKept ??= {});

// Storage may be missing (a private window, a sandboxed frame): then the page remembers.
const storage = {
  read(key) {
    const name = `${EVENT}:${key}`;
    try {
      const text = localStorage.getItem(name);
      return text ? JSON.parse(text) : (MEMORY[name] ?? null);
    } catch {
      return MEMORY[name] ?? null;
    }
  },
  write(key, bet) {
    const name = `${EVENT}:${key}`;
    if (bet) MEMORY[name] = bet;
    else delete MEMORY[name];
    try {
      if (bet) localStorage.setItem(name, JSON.stringify(bet));
      else localStorage.removeItem(name);
    } catch {
      /* the page remembers */
    }
    dispatchEvent(new CustomEvent(EVENT, { detail: key }));
  },
};

// A widget's part `kept` says what of its state the browser keeps under spec.key, and what a kept
// thing changes: at the start, and when another place of the page changes it.
function keeperOf({ kept }, spec, change) {
  const recall = () => change(kept.read(spec, storage.read(spec.key)));
  const told = (event) => {
    if (event.detail === spec.key) recall();
  };
  if (!kept) return { recall() {}, keep() {}, stop() {} };
  addEventListener(EVENT, told);
  return {
    recall,
    keep(state) {
      const now = kept.write(spec, state);
      if (JSON.stringify(now) !== JSON.stringify(storage.read(spec.key))) storage.write(spec.key, now);
    },
    stop: () => removeEventListener(EVENT, told),
  };
}
