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
    a === b ||
    (Number.isFinite(a - b) && Math.abs(a - b) <= tolerance * Math.max(Math.abs(a), Math.abs(b)));

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

  // A value that is none, and one with four digits, as Python prints them.
  const none = (value) => String(value).replace("Infinity", "inf").toLowerCase();

  function brief(value) {
    const [digits, tens] = value.toExponential(3).split("e");
    if (tens >= -4 && tens < 4) return String(Number(value.toPrecision(4)));
    const size = String(Math.abs(tens)).padStart(2, "0");
    return `${Number(digits)}e${tens < 0 ? "-" : "+"}${size}`;
  }

  // What is wrong with a number, or nothing.
  function number(value, { name, unit, value: right, slips, tolerance }) {
    if (!Number.isFinite(value)) return `${name} must be a finite number, got ${none(value)}`;
    if (close(value, right, tolerance)) return "";
    const slip = slips.find(([known]) => close(value, known, SLIP));
    if (slip) return `${name}: ${slip[1]}`;
    const share = !unit && right > 0 && right <= 1;
    if (right === 0) return `${name} is wrong`;
    return `${name} ${kindOfWrong(value / right, share ? [PERCENT] : [])}`;
  }

  function choice(text, { name, value, among }) {
    const words = [value, ...among.map(([word]) => word)].sort();
    try {
      const given = tidy(text);
      if (!words.includes(given)) throw whatIs(given);
      return given === value ? "" : `${name}: ${among.find(([word]) => word === given)[1]}`;
    } catch (odd) {
      return `${name} must be one of ${words.join(", ")}: ${odd.message}`;
    }
  }

  // The grammar of a text: 2 (P-1) n / beta, 3.5e-3, 1,000, 2^30, sqrt(2 n). What cannot be read is
  // an Error, in the words of dtlib.exercises.answers.reading.
  const LONGEST = 500;
  const DEEPEST = 30;
  const QUOTED = 40;
  const COMMA = "decimals have a point, and a comma only groups thousands, as in 1,000";
  const FUNCTIONS = ["sqrt", "exp", "log", "log2", "ceil", "floor", "abs", "max", "min"];
  const SEVERAL = ["max", "min"];
  const TOKEN = / *(?:((?:(?:[1-9]\d{0,2}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?)|([A-Za-z_]\w*)|(\*\*|[-+*/^(),−·×÷]))/y;
  const PLAIN_SIGNS = { "−": "-", "·": "*", "×": "*", "÷": "/", "**": "^" };

  function tidy(text) {
    if (text.length > LONGEST) throw new Error(`that is too long, ${LONGEST} characters are enough`);
    return text.trim().split(/\s+/).join(" ");
  }

  function whatIs(text) {
    const quoted = text.trim();
    return new Error(`what is "${quoted.length <= QUOTED ? quoted : `${quoted.slice(0, QUOTED)} ...`}"?`);
  }

  function tokensOf(text) {
    const found = [];
    TOKEN.lastIndex = 0;
    while (text.slice(TOKEN.lastIndex).trim()) {
      const from = TOKEN.lastIndex;
      const match = TOKEN.exec(text);
      if (!match) throw whatIs(text.slice(from));
      const [whole, digits, name, sign] = match;
      const start = from + whole.length - whole.trimStart().length;
      const before = found.at(-1);
      const beside = before?.digits && before.end === start;
      const zeros = /^0\d/.test(digits) && before?.sign !== ",";
      if (digits && (beside || zeros)) throw whatIs(text.slice(start));
      found.push({ digits, name, sign: PLAIN_SIGNS[sign] ?? sign, start, end: TOKEN.lastIndex });
    }
    return found;
  }

  // A descent: a sum of products of signed powers of numbers, names, calls and brackets.
  class Reader {
    constructor(text, names, takes) {
      Object.assign(this, { text, names, takes, tokens: tokensOf(text), at: 0, depth: 0 });
    }
    get token() {
      return this.tokens[this.at];
    }
    value() {
      const value = this.sum();
      if (this.token) throw this.unexpected(this.token);
      return value;
    }
    next(sign) {
      return this.token?.sign === sign && ++this.at > 0;
    }
    close() {
      if (!this.next(")")) throw new Error(this.token?.sign === "," ? COMMA : 'a ")" is missing');
    }
    sum() {
      let value = this.product();
      for (;;) {
        if (this.next("+")) value += this.product();
        else if (this.next("-")) value -= this.product();
        else return value;
      }
    }
    product() {
      let value = this.signed();
      for (;;) {
        if (this.next("*")) value *= this.signed();
        else if (this.next("/")) value /= this.signed();
        else if (this.token && [undefined, "("].includes(this.token.sign)) value *= this.power();
        else return value;
      }
    }
    signed() {
      this.depth += 1;
      if (this.depth > DEEPEST)
        throw new Error("too many brackets or signs stand inside one another");
      const minus = this.next("-");
      if (!minus) this.next("+");
      const value = minus ? -this.signed() : this.power();
      this.depth -= 1;
      return value;
    }
    power() {
      const value = this.atom();
      return this.next("^") ? value ** this.signed() : value;
    }
    atom() {
      const token = this.token;
      if (!token) throw new Error("something is missing at the end");
      this.at += 1;
      if (token.digits) return Number(token.digits.replace(/,/g, ""));
      if (token.sign === "(") {
        const value = this.sum();
        this.close();
        return value;
      }
      if (Object.keys(this.names).includes(token.name)) return this.names[token.name];
      if (FUNCTIONS.includes(token.name)) return this.call(token.name);
      if (token.name === "pi") return Math.PI;
      throw this.unexpected(token);
    }
    call(name) {
      if (!this.next("(")) throw new Error('a "(" is missing');
      const given = [this.sum()];
      while (this.next(",")) given.push(this.sum());
      this.close();
      if (given.length > 1 && !SEVERAL.includes(name)) throw new Error(`${name} takes one number`);
      return Math[name](...given);
    }
    unexpected(token) {
      if (token.sign === ",") return new Error(COMMA);
      const before = this.tokens[this.tokens.indexOf(token) - 1];
      const unit = before?.digits || before?.sign === ")";
      if (!token.name || !this.takes || !unit) return whatIs(token.name ?? token.sign);
      return new Error(`${whatIs(this.text.slice(token.start)).message} It takes ${this.takes}`);
    }
  }

  // The value of a text for these values of its names; `takes` are the units that a number could
  // have had.
  const valueOf = (text, names = {}, takes = "") => new Reader(text, names, takes).value();

  // A number with its unit, in the unit that is asked for: "35 ms", "15/16 100e6 / 100e9", "62 %".
  function read(text, { name, unit, units, takes }) {
    const words = Object.keys(units).sort((a, b) => b.length - a.length);
    try {
      const given = tidy(text);
      const ending = words.find((word) => {
        const before = given.slice(0, -word.length || undefined);
        return word && given.endsWith(word) && /[\d.) ]$/.test(before);
      });
      const digits = ending ? given.slice(0, -ending.length) : given;
      return valueOf(digits, {}, takes) * (ending ? units[ending] : 1);
    } catch (odd) {
      const asked = unit ? `a number in ${unit}` : "a number";
      throw new Error(`${name}, ${asked}: ${odd.message}`);
    }
  }

  function numbers({ asked }, texts) {
    for (const [i, one] of asked.entries()) {
      if (!texts[i]?.trim()) return `${one.name}: there is nothing here yet`;
      try {
        const wrong = one.among ? choice(texts[i], one) : number(read(texts[i], one), one);
        if (wrong) return wrong;
      } catch (odd) {
        return odd.message;
      }
    }
    return "";
  }

  const NEAR = 1e-9;
  const alike = (found, wanted) => found.every((value, i) => close(value, wanted[i], NEAR));

  function formula({ names, cases, values, slips, limits, signature }, [text]) {
    if (!text?.trim()) return "there is nothing here yet";
    let body, found;
    const at = (args) => valueOf(body, Object.fromEntries(names.map((name, i) => [name, args[i]])));
    try {
      body = tidy(text).replace(/^(?:\w+ *=|return\b)/, "");
      found = cases.map(at);
    } catch (error) {
      return `a formula of ${signature.replace(/^\w+/, "")}: ${error.message}`;
    }
    if (alike(found, values)) return "";
    const slip = slips.find(([, wrong]) => alike(found, wrong));
    if (slip) return slip[0];
    const wrong = found.every(Number.isFinite) ? limits : [];
    const limit = wrong.find(([, , corners, right]) => !alike(corners.map(at), right));
    if (limit) return `wrong already when ${limit[0]}: ${limit[1]}`;
    const i = found.findIndex((value, k) => !close(value, values[k], NEAR));
    const where = names.map((name, k) => `${name} = ${brief(cases[i][k])}`);
    const about = { name: "the result", value: values[i], slips: [], tolerance: NEAR };
    return `${where.join(", ")}: ${number(found[i], about)}`;
  }

  // What is wrong with the texts of an answer, or nothing.
  const judge = (exercise, texts) =>
    exercise.kind === "formula" ? formula(exercise, texts) : numbers(exercise, texts);

  return { judge, number, choice, valueOf, read };
})();
