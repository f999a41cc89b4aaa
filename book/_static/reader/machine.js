// The reader's machine and run beside the book's: a form that says what they are, and every number
// that follows. A number's element carries its formula over roles; its tip says both conditions.

import { completed, decoded, encoded, FIELDS, heard, MACHINE, printed, rolesOf, valueOf } from "./roles.js";
import { showIn } from "./theirs.js";

const NAME = "dtlib-machine";
const VERSION = 1;
const LABELS = {
  gpu: "GPU",
  gpus: "GPUs in a machine",
  link: "link between them",
  port: "network port",
  ports: "ports of a machine",
  host: "link to the processor",
  model: "model",
  seq: "tokens of a sequence",
  P: "GPUs in all",
  tokens: "tokens to learn from",
  batch_tokens: "tokens in a step",
  mfu: "share of the peak (MFU)",
};
const LISTS = { gpu: "gpus", link: "links", port: "ports", host: "hosts", model: "models" };
const INTRODUCTION =
  "Say what you have, and every number in the text that rests on named hardware shows yours beside " +
  "the book's. It stays in this browser.";

const known = await fetch(new URL("machines.json", import.meta.url)).then((answer) => answer.json());

// What is chosen: in this address, kept from before, or nothing.
function choice() {
  const shared = new URLSearchParams(location.search).get("yours");
  if (shared) return decoded(shared);
  const { version, ...fields } = dtKept.read(NAME) ?? {};
  return version === VERSION ? fields : null;
}

function keep(chosen) {
  const address = new URL(location.href);
  address.searchParams.delete("yours");
  history.replaceState(null, "", address);
  dtKept.write(NAME, chosen && { version: VERSION, ...chosen });
  apply();
}

const nameOf = (field, full) => known[LISTS[field]][full[field]].label;
const machineOf = (full) =>
  `${full.gpus} × ${nameOf("gpu", full)} on ${nameOf("link", full)}, ${full.ports} × ${nameOf("port", full)}`;
const runOf = (full) =>
  `${nameOf("model", full)}, ${full.tokens.toLocaleString("en")} tokens, ${full.P} GPUs, ${machineOf(full)}`;

// Every number of the page that depends on a machine gets the reader's beside it.
export function apply() {
  const chosen = choice();
  const full = completed(chosen ?? {}, known);
  for (const old of document.querySelectorAll(".yours")) old.remove();
  for (const button of document.querySelectorAll(".tool[data-your-machine]")) {
    button.classList.toggle("is-on", Boolean(chosen));
  }
  for (const place of document.querySelectorAll("[data-run-said]")) {
    place.textContent = `${chosen ? "Yours" : "The book's"}: ${runOf(full)}.`;
  }
  const roles = rolesOf(full, known);
  for (const number of document.querySelectorAll("data[data-yours]")) {
    delete number.dataset.yoursSaid;
    if (chosen) showYours(number, roles, full);
  }
  for (const place of document.querySelectorAll(".dt-place.is-live")) showInWidget(place);
}

function showInWidget(place) {
  const chosen = choice();
  const full = completed(chosen ?? {}, known);
  const roles = chosen && rolesOf(full, known);
  showIn(place, rolesOf(completed({}, known), known), roles, machineOf(full));
}

document.addEventListener("dt-live", ({ target }) => showInWidget(target));

function showYours(number, roles, full) {
  const { yours: js, printed: shape } = number.dataset;
  const value = valueOf(js, roles);
  const text = value === null ? null : printed(value, JSON.parse(shape));
  if (text === null || text === number.textContent.replaceAll("\u00a0", " ").trim()) return;
  const beside = element("span", { className: "yours" });
  beside.append(element("i", { textContent: "yours" }), `\u00a0${text.replaceAll(" ", "\u00a0")}`);
  number.after(beside);
  number.dataset.yoursSaid = `${text} with yours: ${/\brun_/.test(js) ? runOf(full) : machineOf(full)}`;
}

// The form.

function element(name, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

function press(text, act) {
  const button = element("button", { type: "button", textContent: text });
  button.addEventListener("click", act);
  return button;
}

function field(name, full) {
  const input = LISTS[name]
    ? element("select", { name }, ...options(name, full))
    : element("input", { name, inputMode: "decimal", autocomplete: "off", value: full[name].toLocaleString("en") });
  return element("label", {}, element("span", { textContent: LABELS[name] }), input);
}

const options = (name, full) =>
  Object.entries(known[LISTS[name]]).map(([value, { label }]) =>
    element("option", { value, textContent: label, selected: value === full[name] }),
  );

const numberIn = (input) => input.value.replaceAll(",", "").trim();

function form(names) {
  const full = completed(choice() ?? {}, known);
  const fields = element("div", { className: "machine-fields" }, ...names.map((name) => field(name, full)));
  const told = element("p", { className: "machine-said", role: "status" });
  const inputs = () => [...fields.querySelectorAll("[name]")];
  const say = (text) => (told.textContent = text);

  function chosenNow() {
    const said = inputs().map((input) => [input.name, LISTS[input.name] ? input.value : numberIn(input)]);
    return { ...choice(), ...Object.fromEntries(said) };
  }

  function settle() {
    const wrong = inputs().find((input) => !LISTS[input.name] && !(Number(numberIn(input)) > 0));
    if (wrong) return say(`${LABELS[wrong.name]}: a number above 0, please, not '${wrong.value}'.`);
    keep(chosenNow());
    return say(`Numbers show yours: ${machineOf(completed(chosenNow(), known))}.`);
  }

  function take(found) {
    for (const [name, value] of Object.entries(found)) fields.querySelector(`[name=${name}]`).value = value;
    settle();
  }

  async function share() {
    const address = new URL(location.href);
    address.searchParams.set("yours", encoded(completed(chosenNow(), known)));
    await navigator.clipboard?.writeText(address.href);
    say(navigator.clipboard ? "The address is copied." : address.href);
  }

  function stop() {
    keep(null);
    say("Numbers are the book's own.");
  }

  fields.addEventListener("change", ({ target }) => {
    if (target.name === "gpu") fields.querySelector("[name=link]").value = known.gpus[target.value].link;
    settle();
  });
  const acts = element("p", { className: "machine-acts" });
  acts.append(press("Copy a link with it", share), press("Show the book's numbers only", stop));
  return element("div", { className: "machine" }, fields, pasted(take, say), acts, told);
}

// What `python -m dtlib doctor --json` prints.
function pasted(take, say) {
  const area = element("textarea", { rows: 2, spellcheck: false });
  area.addEventListener("input", () => {
    if (!area.value.trim()) return;
    try {
      take(heard(area.value, known));
    } catch (problem) {
      say(`That cannot be read: ${problem.message}.`);
    }
  });
  const command = element("code", { textContent: "python -m dtlib doctor --json" });
  return element("label", { className: "machine-paste" }, element("span", {}, "or paste what ", command, " prints"), area);
}

// The dialog; a button of the page of the reader's run asks for the run as well.
export function open(button) {
  const names = button.dataset.yourMachine === "run" ? FIELDS : MACHINE;
  const close = press("Close", () => dialog.close());
  close.className = "machine-close";
  const title = element("h2", { id: "dt-machine", textContent: "Your machine" });
  const words = element("p", { textContent: INTRODUCTION });
  const dialog = element("dialog", { className: "machine-dialog" }, close, title, words, form(names));
  dialog.setAttribute("aria-labelledby", title.id);
  dialog.addEventListener("close", () => {
    dialog.remove();
    button.focus();
  });
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}
