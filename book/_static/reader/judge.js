// The judge of answers that are numbers, choices or formulas: what it says of one is what the
// declaration of the exercise says (dtlib.exercises.declarations), word for word.
const dtJudge = (() => {
  const SLIP = 0.003; // how near a known wrong value must be
  const binary = "decimal or binary prefixes? (GB is 10^9, GiB is 2^30)";
  const FACTORS = [
    [8, "bits or bytes?"],
    [1e3, "check the prefixes"],
    [1e6, "check the prefixes"],
    [1e9, "check the prefixes"],
    [2, "one direction or both, one phase or both?"],
    [1.024, binary],
    [1.024 ** 2, binary],
    [1.024 ** 3, binary],
    [1.024 ** 4, binary],
  ];

  const PERCENT = [100, "in percent, or as a number between 0 and 1?"];

  const close = (a, b, tolerance) =>
    a === b || Math.abs(a - b) <= tolerance * Math.max(Math.abs(a), Math.abs(b));

  const grouped = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");

  function kindOfWrong(ratio, more = []) {
    if (!(ratio > 0)) return ratio < 0 ? "has the wrong sign" : "must not be zero";
    const side = ratio > 1 ? "large" : "small";
    const factor = Math.max(ratio, 1 / ratio);
    for (const [known, question] of [...FACTORS, ...more]) {
      if (!close(factor, known, 0.004)) continue;
      const shown = known >= 2 ? grouped(known) : String(Number(known.toPrecision(3)));
      return `is too ${side} by about a factor of ${shown}: ${question}`;
    }
    if (factor < 1.1)
      return `is close, but a little too ${side}: a small term is missing, or rounded too early`;
    if (factor < 3) return `has the right order of magnitude, but is too ${side}`;
    return `is too ${side}, by ${factor > 10 ? "more" : "less"} than a factor of ten`;
  }

  // What is wrong with a number, or nothing.
  function number(value, { name, unit, value: right, slips, tolerance }) {
    if (!Number.isFinite(value)) return `${name} must be a finite number, got ${value}`;
    if (close(value, right, tolerance)) return "";
    const slip = slips.find(([known]) => close(value, known, SLIP));
    if (slip) return `${name}: ${slip[1]}`;
    const share = !unit && right > 0 && right <= 1;
    if (right === 0) return `${name} is wrong`;
    return `${name} ${kindOfWrong(value / right, share ? [PERCENT] : [])}`;
  }

  function choice(given, { name, value, among }) {
    if (given === value) return "";
    const known = among.find(([word]) => word === given);
    return known ? `${name}: ${known[1]}` : `${name}: choose one`;
  }

  // Arithmetic as one writes it: 2 (P-1) n / beta, 3.5e-3, 1,000, 2^30, sqrt(2 n).
  const FUNCTIONS = ["sqrt", "exp", "log", "log2", "ceil", "floor", "abs", "max", "min"];
  const TOKEN = /\s*(?:((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/^(),−·×÷]))/y;

  function tokensOf(text) {
    const found = [];
    TOKEN.lastIndex = 0;
    while (text.slice(TOKEN.lastIndex).trim()) {
      const start = TOKEN.lastIndex;
      const match = TOKEN.exec(text);
      if (!match) throw new Error(`what is "${text.slice(start).trim()}"?`);
      const [, digits, name, sign] = match;
      const plain = { "−": "-", "·": "*", "×": "*", "÷": "/", "**": "^" }[sign] ?? sign;
      found.push({ digits, name, sign: plain });
    }
    return found;
  }

  // The value of a text for these values of its names; throws an Error that says what is odd.
  function valueOf(text, names = {}) {
    const tokens = tokensOf(text);
    let at = 0;
    const next = (sign) => tokens[at]?.sign === sign && ++at > 0;
    const expect = (sign) => {
      if (!next(sign)) throw new Error(`a "${sign}" is missing`);
    };
    function sum() {
      let value = product();
      for (;;) {
        if (next("+")) value += product();
        else if (next("-")) value -= product();
        else return value;
      }
    }
    function product() {
      let value = signed();
      for (;;) {
        if (next("*")) value *= signed();
        else if (next("/")) value /= signed();
        else if (tokens[at] && (!tokens[at].sign || tokens[at].sign === "(")) value *= power();
        else return value;
      }
    }
    function signed() {
      if (next("-")) return -signed();
      next("+");
      return power();
    }
    function power() {
      const value = atom();
      return next("^") ? value ** signed() : value;
    }
    function atom() {
      const token = tokens[at++];
      if (!token) throw new Error("something is missing at the end");
      if (token.digits) return Number(token.digits.replace(/,/g, ""));
      if (token.sign === "(") {
        const value = sum();
        expect(")");
        return value;
      }
      if (Object.keys(names).includes(token.name)) return names[token.name];
      if (FUNCTIONS.includes(token.name)) {
        expect("(");
        const given = [sum()];
        while (next(",")) given.push(sum());
        expect(")");
        return Math[token.name](...given);
      }
      if (token.name === "pi") return Math.PI;
      throw new Error(`what is "${token.name ?? token.sign}"?`);
    }
    const value = sum();
    if (at < tokens.length) throw new Error(`what is "${tokens[at].sign ?? tokens[at].name}"?`);
    return value;
  }

  // A number with its unit, in the unit that is asked for: "35 ms", "15/16 100e6 / 100e9", "62 %".
  function read(text, { name, unit, units }) {
    const words = Object.keys(units).sort((a, b) => b.length - a.length);
    const ending = words.find((word) => {
      const before = text.trim().slice(0, -word.length || undefined);
      return word && text.trim().endsWith(word) && /[\d.)\s]$/.test(before);
    });
    const digits = ending ? text.trim().slice(0, -ending.length) : text;
    try {
      return valueOf(digits) * (ending ? units[ending] : 1);
    } catch (error) {
      const asked = unit ? `, a number in ${unit}` : ", a number";
      throw new Error(`${name}${asked}: ${error.message}`);
    }
  }

  function numbers({ asked }, texts) {
    for (const [i, one] of asked.entries()) {
      if (!texts[i]?.trim()) return `${one.name}: there is nothing here yet`;
      try {
        const wrong = one.among ? choice(texts[i], one) : number(read(texts[i], one), one);
        if (wrong) return wrong;
      } catch (error) {
        return error.message;
      }
    }
    return "";
  }

  const NEAR = 1e-9;
  const alike = (found, wanted) => found.every((value, i) => close(value, wanted[i], NEAR));

  function formula({ names, cases, values, slips, limits, signature }, [text]) {
    if (!text?.trim()) return "there is nothing here yet";
    const body = text.replace(/^\s*(?:\w+\s*=|return\b)/, "");
    const at = (args) => valueOf(body, Object.fromEntries(names.map((name, i) => [name, args[i]])));
    let found;
    try {
      found = cases.map(at);
    } catch (error) {
      return `a formula of ${signature.replace(/^\w+/, "")}: ${error.message}`;
    }
    if (alike(found, values)) return "";
    const slip = slips.find(([, wrong]) => alike(found, wrong));
    if (slip) return slip[0];
    const limit = limits.find(([, , corners, right]) => !alike(corners.map(at), right));
    if (limit) return `wrong already when ${limit[0]}: ${limit[1]}`;
    const i = found.findIndex((value, k) => !close(value, values[k], NEAR));
    const where = names.map((name, k) => `${name} = ${Number(cases[i][k].toPrecision(4))}`);
    const about = { name: "the result", value: values[i], slips: [], tolerance: NEAR };
    return `${where.join(", ")}: ${number(found[i], about)}`;
  }

  // What is wrong with the texts of an answer, or nothing.
  const judge = (exercise, texts) =>
    exercise.kind === "formula" ? formula(exercise, texts) : numbers(exercise, texts);

  return { judge, number, choice, valueOf, read };
})();
