// What a reader says of their machine and run, and what follows from it: who plays which role, and
// a number in these conditions. Nothing here knows of the page.

// One choice a field, in the order of the address that is shared.
export const MACHINE = ["gpu", "gpus", "link", "port", "ports", "host"];
const RUN = ["model", "seq", "P", "tokens", "batch_tokens", "mfu"];
export const FIELDS = [...MACHINE, ...RUN];

export const encoded = (chosen) => FIELDS.map((field) => chosen[field] ?? "").join("~");

export function decoded(text) {
  const values = text.split("~");
  return Object.fromEntries(FIELDS.map((field, i) => [field, values[i]]).filter(([, value]) => value));
}

// A choice whose every field the catalog knows; what is missing is as in the book.
export function completed(chosen, { gpus, links, ports, hosts, models, book }) {
  const lists = { gpu: gpus, link: links, port: ports, host: hosts, model: models };
  const gpu = gpus[chosen.gpu] ? chosen.gpu : book.gpu;
  const full = { ...book, link: gpus[gpu].link, ...chosen, gpu };
  for (const [field, list] of Object.entries(lists)) {
    if (!list[full[field]]) full[field] = field === "link" ? gpus[gpu].link : book[field];
  }
  for (const field of FIELDS.filter((name) => !lists[name])) {
    full[field] = Number(full[field]) > 0 ? Number(full[field]) : book[field];
  }
  return full;
}

// Who plays which role on a machine of `gpus` GPUs with `ports` ports.
export function rolesOf(full, { gpus, links, ports, hosts, models }) {
  const [link, port, host] = [links[full.link], ports[full.port], hosts[full.host]];
  const network = full.ports * port.beta;
  const { label, link: _, ...gpu } = gpus[full.gpu];
  const { label: __, ...model } = models[full.model];
  const { seq, P, tokens, batch_tokens, mfu } = full;
  const given = {
    gpu,
    link: { alpha: link.alpha, beta: link.beta },
    port: { alpha: port.alpha, beta: port.beta },
    host: { alpha: host.alpha, beta: host.beta },
    node: {
      network,
      ring_of_all: Math.min(link.beta, network),
      ring_of_one: Math.min(link.beta, network / full.gpus),
    },
    run: { ...model, seq, P, tokens, batch_tokens, mfu },
  };
  return Object.fromEntries(
    Object.entries(given).flatMap(([owner, figures]) =>
      Object.entries(figures).map(([name, value]) => [`${owner}_${name}`, value]),
    ),
  );
}

// A number in the reader's conditions; nothing where their machine has no such figure.
export function valueOf(js, roles) {
  const asked = [...new Set(js.match(/\b(?:gpu|link|port|host|node|run)_\w+/g))];
  if (asked.some((role) => roles[role] === undefined)) return null;
  const value = new Function(...asked, `return ${js};`)(...asked.map((role) => roles[role]));
  return Number.isFinite(value) ? value : null;
}

// In the book's unit, or in one that suits the number where it is far from the book's.
const TIMES = { ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400, years: 365.25 * 86400 };
const PREFIXES = { K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
const PREFIXED = /^(\s*)([KMGTPE])(B|B\/s|FLOP|FLOP\/s|FLOP\/B)$/;

function unitsLike(rest) {
  const name = rest.trim();
  const found = PREFIXED.exec(rest);
  if (found) return Object.entries(PREFIXES).map(([prefix, unit]) => [unit, `${found[1]}${prefix}${found[3]}`]);
  if (name in TIMES) return Object.entries(TIMES).map(([time, unit]) => [unit, rest.replace(name, time)]);
  return [];
}

export function printed(value, { unit, digits, decimals, counts, rest }) {
  const size = Math.abs(value / unit);
  if (value && (size < 0.1 || size >= 1e3)) {
    const better = unitsLike(rest).filter(([one]) => one <= Math.abs(value)).at(-1);
    if (better) [unit, rest, decimals] = [...better, 0];
  }
  const scaled = value / unit;
  const whole = Math.floor(Math.log10(Math.abs(scaled) || 1)) + 1;
  const rounded = whole > digits ? Number(scaled.toPrecision(digits)) : scaled;
  const behind = counts ? 0 : Math.min(Math.max(decimals, 2 - whole), 12);
  const [front, back] = rounded.toFixed(behind).split(".");
  const grouped = front.replace(/\B(?=(\d{3})+$)/g, ",");
  return `${grouped}${back ? `.${back}` : ""}${rest}`.replace("-", "−");
}

// What `python -m dtlib doctor --json` prints, pasted: the GPUs that it found.
export function heard(text, { gpus }) {
  const { gpus: found } = JSON.parse(text);
  if (!found?.length) throw new Error("it found no GPU");
  const [first] = found;
  if (!gpus[first.entry]) throw new Error(`${first.name} is not in the book's catalog: choose what is nearest`);
  return { gpu: first.entry, gpus: String(found.length), link: gpus[first.entry].link };
}
