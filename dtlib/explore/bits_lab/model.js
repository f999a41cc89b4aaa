// Sums of one number from each rank, in a format of few bits; the same as dtlib.parallelism.data.rounding.

function roundTo(x, bits) {
  if (x === 0) return x;
  let exponent = Math.floor(Math.log2(Math.abs(x)));
  while (2 ** exponent > Math.abs(x)) exponent -= 1;
  while (2 ** (exponent + 1) <= Math.abs(x)) exponent += 1;
  const scale = 2 ** (bits - 1 - exponent);
  const whole = Math.floor(x * scale);
  const rest = x * scale - whole;
  const up = rest > 0.5 || (rest === 0.5 && whole % 2 !== 0);
  return (whole + (up ? 1 : 0)) / scale;
}

function sumIn(order, values, bits, chunk = 0) {
  let terms = values.map((v) => roundTo(v, bits));
  if (order === "ring") {
    const first = (chunk + 1) % terms.length;
    terms = [...terms.slice(first), ...terms.slice(0, first)];
  }
  if (order !== "tree") return terms.reduce((total, term) => roundTo(total + term, bits));
  while (terms.length > 1) {
    const next = [];
    for (let i = 0; i + 1 < terms.length; i += 2) next.push(roundTo(terms[i] + terms[i + 1], bits));
    if (terms.length % 2) next.push(terms[terms.length - 1]);
    terms = next;
  }
  return terms[0];
}

// A sum whose own rounding does not matter: what each addition loses is added at the end.
function exactSum(values) {
  let total = 0;
  let lost = 0;
  for (const v of values) {
    const next = total + v;
    lost += Math.abs(total) >= Math.abs(v) ? total - next + v : v - next + total;
    total = next;
  }
  return total + lost;
}

function hardNumbers(P, condition, seed) {
  let state = seed + 1;
  const draws = [];
  for (let i = 0; i < P + 9; i++) {
    state = (state * 48271) % 2147483647;
    draws.push(state / 2147483647);
  }
  const drawn = draws.slice(9);
  const mean = exactSum(drawn) / P;
  const centred = drawn.map((x) => x - mean);
  const lift = exactSum(centred.map(Math.abs)) / P / condition;
  const values = centred.map((x) => x + lift);
  return condition === 1 ? values.map(Math.abs) : values;
}

const conditionNumber = (values) =>
  exactSum(values.map(Math.abs)) / Math.abs(exactSum(values));

// How far off a sum is, over its size, and the most that any order can be off: P roundings, one of
// them to store the number.
function errorOf(order, values, bits, chunk = 0) {
  const exact = exactSum(values);
  return Math.abs(sumIn(order, values, bits, chunk) - exact) / Math.abs(exact);
}

function boundOf(P, condition, bits) {
  const u = 2 ** -bits;
  return P * u < 1 ? ((P * u) / (1 - P * u)) * condition : Infinity;
}
