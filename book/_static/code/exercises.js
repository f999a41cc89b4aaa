// Below an exercise in code: its editor, in the place of the lines that a notebook would run.
import { Bench } from "./bench.js";

const JUDGED = ["Passed", "NotYet", "error"];

/** `data`: the exercise's label, stub and answer. `box`: where the bench goes. */
export function exercise(slug, data, box, elsewhere) {
  const answer = `dtlib-answer:${slug}`;
  const made = new Bench({
    id: slug,
    code: data.code,
    label: data.label,
    judged: { label: data.label.replace("exercise ", ""), answer: data.answer },
    elsewhere,
    reset: () => dtKept.write(answer, null),
    done({ verdict }, asked) {
      if (asked && JUDGED.includes(verdict))
        dtKept.write(answer, { passed: verdict === "Passed", answer: data.answer });
    },
  });
  if (dtKept.read(answer)?.passed) made.say("✓ It passed.", true);
  box.prepend(made.element);
}
