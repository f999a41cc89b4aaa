// Which entries answer a question. Pagefind knows, word by word, which entries have it and how
// prominently; a whole question is answered by those that have the most and the rarest of its words.
const EMPTY = new Set(
  ("a about am an and are as at be been but by can cannot could did do does for from get had has have how i if in into is it " +
    "its me my no not of on or our should so than that the their then there they this to too was we were " +
    "what when where which who why will with without you your").split(" "),
);
const PLAIN = 12; // from here on, more of one word in a title says little more

// The words that are asked for; all of them where none says anything.
export function wordsOf(question) {
  const all = question.toLowerCase().match(/[\p{L}\p{N}_]+(?:[-.'’][\p{L}\p{N}_]+)*/gu) ?? [];
  const telling = all.filter((word) => !EMPTY.has(word));
  return [...new Set(telling.length ? telling : all)];
}

// Entries by their id with what they are worth, best first; `hits` has a list of { id, score } for
// each word.
export function ranked(hits) {
  const total = new Map();
  const most = Math.max(1, ...hits.map((list) => list.length));
  for (const list of hits) {
    const rarity = Math.log(1 + (2 * most) / Math.max(1, list.length));
    for (const { id, score } of list) {
      const seen = total.get(id) ?? { id, weight: 0, words: 0 };
      seen.weight += (rarity * score) / (score + PLAIN);
      seen.words += 1;
      total.set(id, seen);
    }
  }
  return [...total.values()]
    .map(({ id, weight, words }) => ({ id, worth: (weight * words) / hits.length }))
    .sort((a, b) => b.worth - a.worth);
}

const KINDS = { page: 1.4, term: 1.1, folklore: 0.8, exercise: 0.8, list: 0.5 };
const plainly = (text) => text.toLowerCase().replace(/[-_]/g, "");
const pieces = (text) => plainly(text).match(/[\p{L}\p{N}]+(?:\.\p{N}+)*/gu) ?? [];
const ENDING = /(?:ing|ed|es|s)$/;
const stem = (word) => plainly(word).replace(ENDING, "");

// How much a title says of a question, from 0 to 1: chapters count their name besides.
export function fit({ title, page, kind }, words) {
  const said = pieces(kind === "page" ? `${title} ${page}` : title);
  const met = words.filter((word) => said.some((one) => one === word || one.startsWith(stem(word)))).length;
  const whole = words.filter((word) => said.includes(plainly(word))).length;
  return (met + whole) / (words.length + Math.max(words.length, Math.min(said.length, 8)));
}

// The worth of an entry, now that its title is known.
export const worthOf = (worth, meta, words) => worth * (0.4 + fit(meta, words)) * (KINDS[meta.kind] ?? 1);

const ROOM = 150;

// The piece of a text where most of the words stand, cut into plain and marked pieces.
export function excerpt(text, words) {
  const stems = words.filter((word) => word.length > 1).map((word) => word.replace(ENDING, ""));
  const escaped = stems.map((one) => one.replace(/[-.'’_]/g, "[-_. ]?"));
  const every = escaped.length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${escaped.join("|")})[\\p{L}\\p{N}]*`, "giu") : /$^/g;
  const places = [...text.matchAll(every)].map((found) => found.index);
  const near = (from) => places.filter((place) => place >= from && place < from + ROOM).length;
  const best = places.reduce((a, b) => (near(b) > near(a) ? b : a), places[0] ?? 0);
  const begin = best < ROOM / 2 ? 0 : text.indexOf(" ", best - 40) + 1;
  const end = begin + ROOM < text.length ? text.lastIndexOf(" ", begin + ROOM) : text.length;
  const piece = `${begin ? "… " : ""}${text.slice(begin, end)}${end < text.length ? " …" : ""}`;
  const pieces = [];
  let at = 0;
  for (const found of piece.matchAll(every)) {
    pieces.push({ text: piece.slice(at, found.index) }, { text: found[0], marked: true });
    at = found.index + found[0].length;
  }
  return [...pieces, { text: piece.slice(at) }].filter(({ text: some }) => some);
}
