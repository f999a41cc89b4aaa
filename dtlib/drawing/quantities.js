// Quantities as a sentence prints them: the same text as dtlib.formulas.units.format_quantity.

const PREFIXES = ["", "K", "M", "G", "T", "P", "E"];
const ladder = (unit, prefixes) => prefixes.map((prefix, i) => [prefix + unit, 1000 ** i]);
const TIME = [
  ["ns", 1e-9],
  ["µs", 1e-6],
  ["ms", 1e-3],
  ["s", 1],
  ["min", 60],
  ["h", 3600],
  ["d", 86400],
  ["years", 365.25 * 86400],
];
const LADDERS = {
  s: TIME,
  "s/B": [
    ["ps/B", 1e-12],
    ["ns/B", 1e-9],
    ["us/B", 1e-6],
    ["s/B", 1],
  ],
  B: ladder("B", PREFIXES),
  "B/s": ladder("B/s", PREFIXES),
  FLOP: ladder("FLOP", [...PREFIXES, "Z", "Y"]),
  "FLOP/s": ladder("FLOP/s", PREFIXES),
  "tok/s": [
    ["tok/s", 1],
    ["thousand tok/s", 1e3],
    ["million tok/s", 1e6],
  ],
  USD: [
    ["USD", 1],
    ["M USD", 1e6],
    ["G USD", 1e9],
  ],
  "USD/s": [["USD/h", 1 / 3600]],
  "USD/J": [["USD/kWh", 1 / 3.6e6]],
  J: [["J", 1], ...["", "k", "M", "G"].map((prefix, i) => [`${prefix}Wh`, 3600 * 1000 ** i])],
  W: ladder("W", ["", "k", "M", "G"]),
};
const SIZES = Object.fromEntries([
  ...Object.values(LADDERS).flat(),
  ...["Ki", "Mi", "Gi", "Ti"].map((prefix, i) => [`${prefix}B`, 1024 ** (i + 1)]),
  ["us", 1e-6],
  ["%", 0.01],
]);
const LATE = new Set(["min", "h", "d", "years"]);

function formatQuantity(value, unit = "", digits = 2) {
  if (!Number.isFinite(value)) return "–";
  const [name, size] = readableUnit(value, unit, digits);
  const number = significant(value / size, digits);
  return name === "" || name === "×" ? number + name : `${number} ${name}`;
}

// The same, and a large count in words: the same text as dtlib.formulas.units.readable.
const COUNTS = [
  ["trillion", 1e12],
  ["billion", 1e9],
  ["million", 1e6],
];

function readable(value, unit, digits = 3) {
  const [word, size] = COUNTS.find(([, size]) => Math.abs(value) >= size * (1 - 1e-12)) ?? [];
  return unit === "" && word && Number.isFinite(value)
    ? `${formatQuantity(value / size, "", digits)} ${word}`
    : formatQuantity(value, unit, digits);
}

function readableUnit(value, unit, digits) {
  const steps = LADDERS[unit];
  if (!steps || value === 0) return [unit, SIZES[unit] ?? 1];
  for (let i = 0; i + 1 < steps.length; i++) {
    const [larger, size] = steps[i + 1];
    const limit = ((LATE.has(larger) ? 2 : 1) * size) / steps[i][1];
    if (Math.abs(rounded(value / steps[i][1], digits)) < limit * (1 - 1e-12)) return steps[i];
  }
  return steps[steps.length - 1];
}

const decimals = (number, digits) =>
  number ? Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(number)))) : 0;

// toFixed, but a tie goes to the even digit, as in Python.
function fixed(number, places) {
  const scaled = Math.abs(number) * 10 ** places;
  const tie = scaled % 1 === 0.5 && Number.isInteger(number * 2 ** (places + 1));
  const even = (2 * Math.round(scaled / 2)) / 10 ** places;
  return (tie ? Math.sign(number) * even : number).toFixed(places);
}

const rounded = (number, digits) => +fixed(number, Math.min(100, decimals(number, digits)));

function significant(number, digits) {
  if (number && !(Math.abs(number) >= 1e-4 && Math.abs(number) < 1e15)) {
    const places = fewestPlaces((d) => number.toExponential(d), number, digits - 1);
    const [mantissa, exponent] = number.toExponential(places).split("e");
    return `${mantissa}e${+exponent}`;
  }
  const most = decimals(rounded(number, digits), digits);
  const places = fewestPlaces((d) => fixed(number, d), number, most);
  const [whole, fraction] = fixed(number, places).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (fraction ? `.${fraction}` : "");
}

// The fewest decimals that print the number exactly, or `most` where none up to that do.
function fewestPlaces(print, number, most) {
  for (let places = 0; places < most; places++) if (close(+print(places), number)) return places;
  return most;
}

const close = (a, b) => Math.abs(a - b) <= 1e-12 * Math.max(Math.abs(a), Math.abs(b));

// Ticks of an axis from low to high: powers of ten (or of two) on a logarithmic axis, round numbers
// on a linear one, at most `most` of them.
function ticks(low, high, scale, most) {
  if (scale === "linear") return linearTicks(low, high, most);
  const base = scale === "powers of two" ? 2 : 10;
  const exponent = (value) => Math.log10(value) / Math.log10(base);
  const first = Math.ceil(exponent(low) - 1e-9);
  const last = Math.floor(exponent(high) + 1e-9);
  const steps = base === 10 ? [1, 2, 3, 6, 9] : [1, 2, 3, 4, 5];
  const startOf = (step) => (base === 10 ? Math.ceil(first / step) * step : first);
  const count = (step) => Math.floor((last - startOf(step)) / step) + 1;
  const step = steps.find((s) => count(s) <= most) ?? Math.ceil((last - first) / most);
  const powers = Array.from({ length: count(step) }, (_, i) => base ** (startOf(step) + i * step));
  return powers.length > 1 ? powers : linearTicks(low, high, most);
}

// The same in the unit in which the axis is read: 10 d and 20 d, not a million seconds and two.
function quantityTicks(low, high, scale, most, unit) {
  if (scale !== "linear") return ticks(low, high, scale, most);
  const [, size] = readableUnit(high, unit, 2);
  return ticks(low / size, high / size, scale, most).map((value) => value * size);
}

function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * unit).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); k++)
    found.push(k * step);
  return found;
}
