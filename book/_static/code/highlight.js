// Python in five colours, with the letters of the classes that the printed code has. Escapes HTML.
const TOKEN = new RegExp(
  [
    String.raw`(?<c1>#[^\n]*)`,
    String.raw`(?<s1>(?:\b[rbfuRBFU]{1,2})?(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))`,
    String.raw`(?<mi>\b\d[\d_]*\.?\d*(?:e[+-]?\d+)?\b)`,
    String.raw`(?<k>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)`,
    "(?<plain>[&<>])",
  ].join("|"),
  "g",
);
const ESCAPED = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const escaped = (text) => text.replace(/[&<>]/g, (sign) => ESCAPED[sign]);

export function highlighted(code) {
  return code.replace(TOKEN, (token, ...rest) => {
    const [kind] = Object.entries(rest.at(-1)).find(([, found]) => found !== undefined);
    return kind === "plain" ? escaped(token) : `<span class="${kind}">${escaped(token)}</span>`;
  });
}
