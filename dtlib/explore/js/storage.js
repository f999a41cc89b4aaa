// What the reader bet, kept in the browser under a key, and told to whoever shows it on the page.

const EVENT = "dtlib-bet";
const MEMORY = (globalThis.dtlibBets ??= {});

// Storage may be missing (a private window, a sandboxed frame): then the page remembers.
const storage = {
  read(key) {
    try {
      const text = localStorage.getItem(EVENT + ":" + key);
      return text ? JSON.parse(text) : (MEMORY[key] ?? null);
    } catch {
      return MEMORY[key] ?? null;
    }
  },
  write(key, bet) {
    if (bet) MEMORY[key] = bet;
    else delete MEMORY[key];
    try {
      if (bet) localStorage.setItem(EVENT + ":" + key, JSON.stringify(bet));
      else localStorage.removeItem(EVENT + ":" + key);
    } catch {
      /* the page remembers */
    }
    dispatchEvent(new CustomEvent(EVENT, { detail: key }));
  },
};
