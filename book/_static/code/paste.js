// Code that comes from elsewhere: other line ends, tabs, curly quotes, prompts, a common indent.

const STRAIGHT = { "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "‚": "'", "\u00a0": " ", "\r": "\n" };

const indent = (line) => /^ */.exec(line)[0].length;

function withoutPrompts(lines) {
  if (!/^\s*>>> ?/.test(lines[0])) return lines;
  return lines.flatMap((line) => (/^\s*(>>>|\.\.\.)/.test(line) ? [line.replace(/^\s*(>>>|\.\.\.) ?/, "")] : []));
}

// What was copied from the middle of a line lacks that line's indent: then the others are moved, to
// where they belong below it.
function withoutIndent([first, ...others]) {
  const inFirst = indent(first);
  const common = Math.min(...others.filter((line) => line.trim()).map(indent));
  const opens = (first.match(/[([{]/g)?.length ?? 0) > (first.match(/[)\]}]/g)?.length ?? 0);
  const below = /:\s*(#.*)?$/.test(first) ? 4 : 0;
  const extra = inFirst ? Math.min(inFirst, common) : Math.max(0, common - below);
  if (opens && !inFirst) return [first, ...others];
  return [first.slice(Math.min(extra, inFirst)), ...others.map((line) => line.slice(Math.min(extra, indent(line))))];
}

/** The text as it goes in after `before`, what stands on its line: deeper by as much as that. */
export function pasted(text, before = "") {
  const plain = text
    .replace(/\r\n/g, "\n")
    .replace(/[“”„‘’‚\u00a0\r]/g, (sign) => STRAIGHT[sign])
    .replace(/^[ \t]+/gm, (space) => space.replaceAll("\t", "    "));
  const lines = withoutPrompts(plain.split("\n"));
  if (before.trim() || lines.length === 1) return before.trim() ? lines.join("\n") : lines[0].trimStart();
  return withoutIndent(lines).map((line, i) => (i && line ? before + line : line)).join("\n");
}
