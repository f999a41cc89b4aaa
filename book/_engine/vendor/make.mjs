// Makes cowasm.js and xz.js, what the page's worker takes from npm, and LICENSES.txt from their packages.
// Here, after `npm ci --ignore-scripts`: node make.mjs [FOLDER]
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const [folder = "."] = process.argv.slice(2);
// What these packages name of Node and a page never calls.
const absent = ["assert", "await-spawn", "awaiting", "child_process", "debug", "fs", "fs/promises", "lodash", "os", "process", "randomfill", "stream", "stream/web", "url", "util"];
const alias = { ...Object.fromEntries(absent.map((name) => [name, "./node/absent.cjs"])), path: "path-browserify" };
const options = {
  bundle: true, minify: true, format: "esm", legalComments: "none", charset: "utf8", target: "es2022",
  alias, define: { global: "globalThis", __dirname: '"/"' }, metafile: true,
};
const taken = new Set();
for (const [name, inject] of [["cowasm", ["./node/globals.js"]], ["xz", []]]) {
  const { metafile } = await build({ ...options, inject, entryPoints: [`node/${name}.js`], outfile: join(folder, `${name}.js`) });
  for (const input of Object.keys(metafile.inputs)) {
    const [, found] = input.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//) ?? [];
    if (found) taken.add(found);
  }
}

const texts = [...taken].sort().map((name) => {
  const at = join("node_modules", name), { version, license, author } = JSON.parse(readFileSync(join(at, "package.json")));
  const file = readdirSync(at).find((each) => /^licen[cs]e/i.test(each));
  const owner = typeof author === "string" ? author : author?.name;
  const text = file ? readFileSync(join(at, file), "utf8").trim() : `Copyright ${owner ?? "its authors"}; its package holds no text of the licence.`;
  return `${name} ${version} (${license})\n\n${text}\n`;
});
writeFileSync(join(folder, "LICENSES.txt"), texts.join(`\n${"-".repeat(72)}\n\n`));
