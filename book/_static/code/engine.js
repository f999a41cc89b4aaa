// Python in the page: one engine for all cells of a page, in a worker that starts at the first click.
// Its events "change" carry {state}, {progress, total, left}, bytes and seconds, or {out, stream}.

const HERE = new URL("python/", import.meta.url);
const KEPT = "dtlib-python"; // the browser's store, in which the worker keeps what it fetched

async function list() {
  const answer = await fetch(new URL("engine.json", HERE), { cache: "no-cache" });
  if (!answer.ok) throw Error("this site was built without Python");
  return answer.json();
}

const named = (packs) => packs.map(({ file, ...more }) => ({ url: new URL(file, HERE).href, ...more }));

// Of what the browser keeps, only what today's site has stays.
async function forget(todays) {
  const store = await caches.open(KEPT);
  for (const { url } of await store.keys()) if (!todays.includes(url)) await store.delete(url);
}

export class Engine extends EventTarget {
  #worker; #loading; #count = 0; #running = 0; #began = 0;
  #waiting = new Map();
  state = "off"; // off, loading, ready, busy

  #tell(detail) {
    if (detail.state) this.state = detail.state;
    this.dispatchEvent(new CustomEvent("change", { detail }));
  }

  /** Resolves when Python is ready; fetches nothing twice. */
  load() {
    return (this.#loading ??= this.#start().catch((error) => {
      this.interrupt(error.message);
      throw error;
    }));
  }

  async #start() {
    this.#tell({ state: "loading", progress: 0, total: 0 });
    const { engine, worker, ...all } = await list();
    const [packs, rooms] = [all.packs, all.rooms].map(named);
    this.#began = performance.now();
    this.#worker = new Worker(new URL(worker, HERE), { type: "module" });
    this.#worker.onmessage = ({ data }) => this.#hear(data);
    this.#worker.onerror = (event) => this.interrupt(event.message || "the worker did not start");
    await this.#ask({ task: "load", engine, packs, rooms });
    this.#tell({ state: "ready" });
    forget([...packs, ...rooms].map(({ url }) => url)).catch(() => {});
  }

  #hear({ id, done, failed, ...news }) {
    if (!id) return this.#tell("progress" in news ? { ...news, left: this.#left(news) } : news);
    const { resolve, reject } = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (!failed) return resolve(done);
    const sentence = `Python ended here (${failed}); the next run starts it anew, without the names of this one.`;
    reject(Error(this.state === "loading" ? failed : sentence));
    this.interrupt();
  }

  #left({ progress, total }) {
    return ((performance.now() - this.#began) / 1000 / progress) * (total - progress);
  }

  #ask(message) {
    return new Promise((resolve, reject) => {
      this.#waiting.set(++this.#count, { resolve, reject });
      this.#worker.postMessage({ ...message, id: this.#count });
    });
  }

  /** Resolves to {verdict, text}: "Passed", "NotYet", "Unanswered", "UnknownExercise", "value", "none", "error", "elsewhere". */
  async run({ code, label, answer }) {
    await this.load();
    this.#running += 1;
    this.#tell({ state: "busy" });
    try {
      return await this.#ask({ task: "run", code, label, answer });
    } finally {
      this.#running -= 1;
      if (this.state === "busy" && !this.#running) this.#tell({ state: "ready" });
    }
  }

  /** A fresh Python without names. */
  reset() {
    this.interrupt("reset");
    return this.load();
  }

  /** Ends the worker, and with it all names; whoever waits is told why. The next run starts another. */
  interrupt(why = "stopped") {
    this.#worker?.terminate();
    this.#worker = this.#loading = undefined;
    for (const { reject } of this.#waiting.values()) reject(Error(why));
    this.#waiting.clear();
    this.#tell({ state: "off" });
  }
}
