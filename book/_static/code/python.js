// The page's Python: one engine, fetched at the first click, for all that runs here. Names last along
// the page: what a cell needs from earlier ones is run before it, once, and again after a stop.

const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "{}");
const cells = read("dt-cells");
const ran = new Set();
let engine;
let silent = false; // while what is needed runs, nothing of it shows
let busy = false;

/** Hears "change" with `{state, progress, total, left, out, stream}` of what was clicked. */
export const python = new EventTarget();

function tell({ detail }) {
  if (detail.state === "off") ran.clear();
  if (silent && detail.out !== undefined) return;
  python.dispatchEvent(new CustomEvent("change", { detail }));
}

async function started() {
  if (engine) return engine;
  const { Engine } = await import("./engine.js").catch(() => {
    throw Error("The page could not fetch what runs Python");
  });
  engine = new Engine();
  engine.addEventListener("change", tell);
  return engine;
}

const printed = (id) => document.querySelector(`[data-cell="${id}"] .cell_input pre`)?.textContent;

/** The code of a cell as its reader left it, or else as it is printed. */
const codeOf = (id) =>
  dtKept.read(`dtlib-code:${id}`) ?? cells[id]?.code ?? printed(id) ?? "";

// Some cells fail on purpose: what they gave before stands.
async function runNeeded(ids) {
  silent = true;
  try {
    for (const id of ids) {
      if (ran.has(id)) continue;
      await engine.run({ code: codeOf(id) });
      ran.add(id);
    }
  } finally {
    silent = false;
  }
}

/** What came of `task`, `{code}` or `{code, label, answer}`, of the cell or exercise `id`. */
export async function run(id, task) {
  if (busy) throw Error("Python is busy with another cell of this page: wait for it, or stop it.");
  busy = true;
  try {
    await started();
    await engine.load();
    await runNeeded(cells[id]?.needs ?? []);
    const result = await engine.run(task);
    ran.add(id);
    return result;
  } finally {
    busy = false;
  }
}

/** Ends what runs, and all names with it; the next run brings back what it needs. */
export const stop = (why) => engine?.interrupt(why);
