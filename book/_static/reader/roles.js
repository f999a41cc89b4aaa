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

// Figures of a machine among the variables of a widget's formulas, by the word in a variable's name:
// the unit that they are said in, and who may play them.
const FIGURES = {
  alpha: [1e-6, " µs", ["port_alpha", "link_alpha", "host_alpha"]],
  beta: [1e9, " GB/s", ["port_beta", "link_beta", "host_beta"]],
  peak: [1e12, " TFLOP/s", ["gpu_peak_bf16"]],
  bandwidth: [1e12, " TB/s", ["gpu_hbm_bandwidth"]],
  memory: [1e9, " GB", ["gpu_hbm_bytes"]],
};

// The role that a variable plays where its value is the book's own figure, or nothing.
function roleOf(name, value, book) {
  const word = Object.keys(FIGURES).find((one) => name.includes(one));
  if (!word) return null;
  const [unit, rest, roles] = FIGURES[word];
  const role = roles.find((one) => book[one] === value);
  return role ? { role, shape: { unit, rest, digits: 3, decimals: 1 } } : null;
}

const withValue = (control, value) => {
  const values = [...new Set([...control.values, value])].sort((a, b) => a - b);
  return { ...control, values, index: values.indexOf(value) };
};

// A widget of formulas on the reader's machine: its spec, and what differs from the book's, or null
// where nothing does, or the widget has machines to choose from. Its task is about the book's machine,
// and steps aside.
export function onMachine(spec, book, theirs) {
  if (!spec?.fixed || !spec.curves || spec.gpus) return null;
  const differs = [];
  const other = (name, value) => {
    const found = roleOf(name, value, book);
    if (!found || theirs[found.role] === undefined || theirs[found.role] === value) return null;
    const { role, shape } = found;
    const said = (figure) => printed(figure, shape).replace(/\.0+(?= )/, "");
    differs.push({ name, yours: said(theirs[role]), book: said(value) });
    return theirs[role];
  };
  const fixed = spec.fixed.map(([name, value]) => [name, other(name, value) ?? value]);
  const controls = spec.controls.map((control) => {
    const value = control.kind === "slider" ? other(control.name, control.values[control.index]) : null;
    return value === null ? control : withValue(control, value);
  });
  return differs.length ? { spec: { ...spec, fixed, controls, task: null }, differs } : null;
}
