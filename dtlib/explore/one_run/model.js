// A run on so many GPUs, the line that somebody drew, and what can be said of both.

const lastOf = ({ controls }) => controls[0].values.length - 2; // the column at the right edge
const ranksAt = ({ fine }, column) => Math.round(2 ** (column / fine));
const columnOf = ({ fine }, P) => Math.log2(P) * fine;

// Seconds of a step and of the run, with so many GPUs.
function timesOf(spec) {
  const value = valuesAt(spec, { P: 1, drawn: 0 });
  const of = (name) => (P) => value(spec.formulas[name])({ P });
  const [whole, work, step, fastest] = ["whole", "work", "step", "fastest"].map(of);
  const steps = whole(1) / work(1);
  const run = (P) => steps * step(P);
  return { work, talk: (P) => step(P) - work(P), step, steps, run, alone: (P) => steps * work(P), best: fastest(1) };
}

// The pen goes to a column: a straight line from where the hand was last, and of what lies further
// on the rest stays.
function penTo(spec, { hand, pen }, to, seconds) {
  const from = Math.min(pen, hand.length - 1);
  const now = [...hand];
  const share = (i) => (i - from) / (to - from);
  for (let i = from + 1; i <= to; i++) now[i] = hand[from] * (seconds / hand[from]) ** share(i);
  if (to && to <= from) now[to] = seconds;
  return { hand: now, pen: to, drawn: now.length - 1 };
}

// A line that is said to be so long goes on level, or loses its end.
function ofLength(hand, length) {
  const last = hand[hand.length - 1];
  return [...hand, ...Array(length).fill(last)].slice(0, length);
}

// Whose line reaches the edge sees the true one, at its end.
function changed(spec, state, change, before) {
  const last = lastOf(spec);
  const shows = state.drawn > last;
  const fresh = shows && before.drawn <= last;
  const drawn = Math.min(state.drawn, last);
  const line = "drawn" in change && !("hand" in change) ? { hand: ofLength(before.hand, drawn + 1), pen: drawn } : {};
  return { ...line, fresh, ...(fresh ? { P: ranksAt(spec, last) } : {}) };
}

const DAY = 86400;
const SPANS = [["year", 365.25 * DAY], ["day", DAY], ["hour", 3600]]; // prettier-ignore
const rough = (number) => formatQuantity(+number.toPrecision(2), "", 6);
function inWords(seconds) {
  const [unit, size] = SPANS.find(([, size]) => seconds >= 1.995 * size) ?? ["hour", 3600];
  const number = rough(seconds / size);
  return `${number} ${unit}${number === "1" ? "" : "s"}`;
}
const gpus = (P) => (P === 1 ? "one GPU" : `${formatQuantity(P, "", 6)} GPUs`);
const seconds = (time) => formatQuantity(time, "s", 2);

function view(spec, state) {
  const times = timesOf(spec);
  const last = lastOf(spec);
  const known = state.drawn > last;
  const P = known ? state.P : ranksAt(spec, state.pen);
  const longer = times.run(state.P) / times.run(times.best);
  const guessed = !known && state.pen > 0;
  const time = guessed ? state.hand[state.pen] : times.run(P);
  const facts = { times, known, guessed, P, time, whole: state.drawn >= last, longer };
  const told = toldOf(spec, state, facts);
  const verb = guessed ? "you say it takes" : "this run takes";
  return {
    names: { longer },
    ...facts,
    told,
    headline: [`On ${gpus(P)}`, verb, inWords(time) + (guessed ? "?" : ".")],
    said: `On ${gpus(P)} ${verb} ${inWords(time)}. ${told.join(" ")}`,
  };
}

// What there is to say, and then what there is to do.
function toldOf(spec, state, { times, known, whole, P, longer }) {
  const most = formatQuantity(ranksAt(spec, lastOf(spec)), "", 6);
  if (!state.drawn) {
    const ask = `Nobody waits that long. So take more GPUs, up to ${most}. How long does it take then?`;
    return [ask, "Draw the line you expect, from the dot to the right edge."];
  }
  if (!known && !whole) return [`So far your line. Draw on to the right edge, ${most} GPUs.`, ""];
  if (!known) return ["That is your line.", "Let go, or press Enter, and see."];
  if (longer < spec.shortest) {
    const spent = `The work of a step shrank ${formatQuantity(P, "", 6)} times, to ${seconds(times.work(P))}; the talking takes ${seconds(times.talk(P))}.`;
    return [`Found: ${inWords(times.run(P))}, and no number of GPUs does better. ${spent}`, "The work divides; the talking does not."];
  }
  return [`${compared(spec, state, times)} Stranger still: with fewer GPUs it was faster.`, "Slide to the shortest run."];
}
const NEAR = 1.5; // a line that ends within this ratio ends where it should

// The end of the reader's line and the end of the true one.
function compared(spec, { hand }, times) {
  const last = lastOf(spec);
  const [mine, real] = [hand[last], times.run(ranksAt(spec, last))];
  const ratio = rough(Math.max(mine, real) / Math.min(mine, real));
  const on = `For ${gpus(ranksAt(spec, last))} you drew ${inWords(mine)}`;
  if (Math.max(mine, real) < NEAR * Math.min(mine, real)) return `${on}, and ${inWords(real)} it is.`;
  return mine > real ? `${on}. It is ${inWords(real)}: ${ratio} times less.` : `${on}. It is ${inWords(real)}: ${ratio} times as long.`;
}
