// What the browser keeps of a reader: the one place that reads, writes, saves, takes over and erases
// it. Every name begins with "dtlib-"; what is kept under it is plain data. Kept today:
//
//   dtlib-read            the numbers of the chapters that were read to their end
//   dtlib-bet:<key>       { value, unit, sure? } or { skipped: true } (also written by the widgets)
//   dtlib-scene:<key>     { level, ... } how far a scene was played (written by the widgets)
//   dtlib-machine         { version, gpu, gpus, link, ... } what the reader has (machine.js)
//   dtlib-answer:<slug>   { texts, passed } of an exercise or a question; { passed, answer } of one in code
//   dtlib-code:<name>     the text in the editor of an exercise (its slug) or of a cell (its id)
//
// Whoever keeps more adds a line here and calls `dtKept.write(name, data)`: it is then saved, taken
// over and erased with the rest. The choice of colours belongs to the screen and is none of it.
const dtKept = (() => {
  const VERSION = 1;
  const FORMAT = "dtlib-kept";
  const CHANGED = "dtlib-kept"; // the event; its detail is the name
  // Storage may be missing, as in a private window: then the page remembers.
  const memory = (globalThis.dtlibKept ??= {});
  const ours = (name) => name.startsWith("dtlib-");

  function read(name) {
    try {
      return JSON.parse(localStorage.getItem(name)) ?? memory[name] ?? null;
    } catch {
      return memory[name] ?? null;
    }
  }

  function write(name, data) {
    if (data === null) delete memory[name];
    else memory[name] = data;
    try {
      if (data === null) localStorage.removeItem(name);
      else localStorage.setItem(name, JSON.stringify(data));
    } catch {
      /* the page remembers */
    }
    tell(name);
  }

  function tell(name) {
    dispatchEvent(new CustomEvent(CHANGED, { detail: name }));
    const [, key] = name.match(/^dtlib-(?:bet|scene):(.+)/) ?? [];
    if (key) dispatchEvent(new CustomEvent("dtlib-bet", { detail: key }));
  }

  function names() {
    let stored = [];
    try {
      stored = Object.keys(localStorage);
    } catch {
      /* the page remembers */
    }
    return [...new Set([...stored, ...Object.keys(memory)])].filter(ours).sort();
  }

  const all = () => Object.fromEntries(names().map((name) => [name, read(name)]));

  // All of it as the text of a file.
  const save = (now = new Date()) =>
    JSON.stringify({ format: FORMAT, version: VERSION, saved: now.toISOString(), kept: all() }, null, 1);

  // Hand that file over.
  function download() {
    const address = URL.createObjectURL(new Blob([save()], { type: "application/json" }));
    const link = Object.assign(document.createElement("a"), { href: address, download: "algebra-of-distributed-training.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }

  // Take over what such a file holds, beside what is here already; how many things it held.
  function take(text) {
    let file;
    try {
      file = JSON.parse(text);
    } catch {
      throw new Error("this is no file that the book has saved");
    }
    if (file?.format !== FORMAT || typeof file.kept !== "object" || file.kept === null)
      throw new Error("this is no file that the book has saved");
    if (file.version > VERSION)
      throw new Error(`the file is of version ${file.version}, this page knows ${VERSION}: load it anew`);
    const found = Object.entries(file.kept).filter(([name, data]) => ours(name) && data !== null);
    for (const [name, data] of found) write(name, joined(name, data));
    return found.length;
  }

  // What was read here stays read.
  const joined = (name, data) =>
    Array.isArray(data) ? [...new Set([...(read(name) ?? []), ...data])] : data;

  const erase = () => names().forEach((name) => write(name, null));

  // `call` hears of every change, by whatever page or widget.
  function watch(call) {
    for (const event of [CHANGED, "dtlib-bet", "storage"]) addEventListener(event, () => call());
  }

  return { read, write, names, all, save, download, take, erase, watch };
})();
