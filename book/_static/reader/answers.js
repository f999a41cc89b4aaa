// Below each exercise a place for its answer: numbers, choices and formulas are judged here, by the
// exercise's own declaration; code has an editor (code/offer.js). What was written stays in this
// browser.
(() => {
  const KEY = "dtlib-answer:";
  const h = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };

  const stateOf = (slug) => dtKept.read(KEY + slug) ?? {};

  function fieldOf(one, id, text) {
    const label = one.unit ? `${one.name}, in ${one.unit}` : one.name;
    const choices = one.among && [["", ""], ...words(one).map((word) => [word, word])];
    const input = choices
      ? h("select", { id }, ...choices.map(([name, value]) => new Option(name, value)))
      : h("input", { id, type: "text", autocomplete: "off", spellcheck: "false", enterkeyhint: "go" });
    input.value = text ?? "";
    return { input, element: h("div", {}, h("label", { for: id }, label), input) };
  }

  const words = ({ value, among }) => [value, ...among.map(([word]) => word)].sort();

  // Enter checks in a list as it does in a field; Space and Alt with Down open the list.
  function sentFromList(event) {
    if (event.key !== "Enter" || event.target.tagName !== "SELECT") return;
    event.preventDefault();
    if (!event.repeat) event.currentTarget.requestSubmit();
  }

  function judged(exercise, slug) {
    const asked =
      exercise.kind === "formula" ? [{ name: exercise.signature.replace(/^\w+/, "of ") }] : exercise.asked;
    const state = stateOf(slug);
    const fields = asked.map((one, i) => fieldOf(one, `${slug}-${i}`, state.texts?.[i]));
    const verdict = h("p", { role: "status" });
    const say = (passed, text) => {
      verdict.textContent = text;
      verdict.dataset.passed = String(passed);
    };
    if (state.passed) say(true, `✓ ${exercise.verified}`);
    const form = h(
      "form",
      {
        onsubmit(event) {
          event.preventDefault();
          const texts = fields.map(({ input }) => input.value);
          const wrong = dtJudge.judge(exercise, texts);
          say(!wrong, wrong || `✓ ${exercise.verified}`);
          dtKept.write(KEY + slug, { texts, passed: !wrong });
        },
        oninput: () => say(false, ""),
        onkeydown: sentFromList,
      },
      ...fields.map(({ element }) => element),
      h("button", { type: "submit" }, "Check"),
    );
    return [form, verdict];
  }

  function inNotebook(notebook) {
    const link = h("a", { href: notebook, download: "" }, "notebook of this page");
    return h("p", {}, "Or write it in the ", link, "; check judges it there.");
  }

  // What was written can be taken along: every place of the class, and the head of the exercises.
  function offerToSave() {
    const title = document.querySelector("#exercises > h2");
    title?.after(h("p", { class: "dt-save" }));
    for (const place of document.querySelectorAll(".dt-save"))
      place.append(
        h("button", { type: "button", onclick: dtKept.download }, "Save my answers"),
        " in a file, which ",
        h("code", {}, "python -m dtlib answers FILE"),
        " judges and puts into notebooks.",
      );
  }

  function start() {
    offerToSave();
    const data = document.getElementById("dt-exercises");
    if (!data) return;
    const { notebook, exercises } = JSON.parse(data.textContent);
    for (const [slug, exercise] of Object.entries(exercises)) {
      const place = document.getElementById(slug);
      if (!place || exercise.kind === "code") continue;
      const inside = judged(exercise, slug);
      if (exercise.kind !== "numbers") inside.push(inNotebook(notebook));
      const label = `Your answer to ${exercise.label}`;
      place.append(h("div", { class: "dt-answer-box", role: "group", "aria-label": label }, ...inside));
    }
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
