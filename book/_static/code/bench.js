// Where code is worked on: its editor, Run, Check, Reset and Stop, what it printed, and what is said of it.
import { coming } from "./coming.js";
import { editor } from "./editor.js";
import { element, inert } from "./element.js";
import { python, run, stop } from "./python.js";

const STOPPED = "Stopped. The names of the page are gone; the next run brings back those that it needs.";
const CANCELLED = "Cancelled. Nothing runs, and the next click begins again.";
const WAITS = ["loading", "busy"];

export class Bench {
  #mine = false; // whether what runs was clicked here
  #given;
  #box;
  #status = element("p", { role: "status" });
  #journey = coming(() => stop(CANCELLED));
  #buttons;

  /**
   * `id`: the exercise or cell. `code`: as the book has it. `label`: 'exercise 12.6'. `judged`: the
   * `{label, answer}` of a check. `done` hears of a result, `reset` of a reset. `elsewhere`: what to
   * do where Python does not come.
   */
  constructor(given) {
    this.#given = given;
    const { id, code, label, judged } = given;
    this.output = element("div", { class: "dt-ran", role: "group", "aria-label": `Output of ${label}`, hidden: true });
    this.#box = editor({
      id: `code-${id}`,
      text: dtKept.read(this.#key) ?? code,
      label: `Python code of ${label}`,
      run: () => this.run(),
      written: (text) => this.#keep(text),
    });
    const button = (text, press, more) => element("button", { type: "button", onclick: press, ...more }, text);
    this.#buttons = {
      run: button("Run", () => this.run(), { title: "Ctrl+Enter or Shift+Enter" }),
      ...(judged && { check: button("Check", () => this.run(judged)) }),
      reset: button("Reset", () => this.reset()),
      stop: button("Stop", () => stop(STOPPED), { hidden: true }),
    };
    const bar = element("div", { class: "dt-does" }, ...Object.values(this.#buttons));
    const parts = [this.#box.element, bar, this.#journey.element, this.output, this.#status];
    this.element = element("div", { class: "dt-bench" }, ...parts);
    python.addEventListener("change", ({ detail }) => this.#heard(detail));
  }

  get #key() {
    return `dtlib-code:${this.#given.id}`;
  }

  focus() {
    this.#box.focus();
  }

  say(text, passed = false) {
    this.#status.textContent = text;
    this.#status.dataset.passed = String(passed);
  }

  /** Runs the code as it stands, and with `judged` has its answer checked. */
  async run(judged) {
    if (this.#mine) return;
    this.#mine = true;
    this.#clear();
    try {
      const result = await run(this.#given.id, { code: this.#box.text, ...judged });
      show(this.output, result);
      this.say(...words(result, Boolean(judged)));
      this.#given.done?.(result, Boolean(judged), this.output);
    } catch ({ message }) {
      this.say(/[.!?]$/.test(message) ? message : `${message}. ${this.#given.elsewhere}`);
    }
    this.#mine = false;
    this.#settle("ready");
  }

  reset() {
    this.#box.replace(this.#given.code);
    dtKept.write(this.#key, null);
    this.#clear();
    this.#given.reset?.();
  }

  #keep(text) {
    dtKept.write(this.#key, text === this.#given.code ? null : text);
    this.say("");
  }

  #clear() {
    this.output.replaceChildren();
    this.output.hidden = true;
    this.say("");
  }

  #heard({ state, progress, total, left, out, stream }) {
    if (state) this.#settle(state);
    if (!this.#mine) return;
    if (progress !== undefined) this.#journey.show(progress, total, left);
    if (out !== undefined) print(this.output, out, stream);
  }

  #settle(state) {
    const { run, check, stop } = this.#buttons;
    stop.hidden = !(this.#mine && state === "busy");
    for (const one of [run, check]) one?.toggleAttribute("disabled", WAITS.includes(state));
    if (!this.#mine || state === "busy") this.#journey.hide();
  }
}

function print(output, text, stream) {
  output.hidden = false;
  const kind = stream === 2 ? "dt-printed is-error" : "dt-printed";
  const last = output.lastElementChild;
  if (last?.className === kind) last.append(text);
  else output.append(element("pre", { class: kind, tabindex: "0" }, text));
}

function show(output, { verdict, text, html }) {
  if (html) {
    output.hidden = false;
    output.append(element("div", { class: "dt-shown" }, ...inert(html)));
  } else if (verdict === "value" || verdict === "error") print(output, text, verdict === "error" ? 2 : 1);
}

/** What is said of a result, and whether it counts as passed. */
function words({ verdict, text, head }, asked) {
  const reason = text?.replace(/^\w+(?:\.\d+)(?: passed)?: /, "");
  const said = {
    Passed: [`✓ ${reason}`, true],
    NotYet: [reason, false],
    Unanswered: [text, false],
    UnknownExercise: [text, false],
    elsewhere: [text, false],
    error: [head, false],
  };
  return said[verdict] ?? [asked ? "There is no answer here to judge yet." : "", false];
}
