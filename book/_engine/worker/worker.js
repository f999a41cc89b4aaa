// The worker's half of the protocol, the same for every engine behind the seam
// boot(files, out, coming) -> {write(path, bytes), read(path), exec(code)}, in which opening a file
// first writes the files of coming(path).
// In: {id, task: "load", engine, packs, rooms} {id, task: "run", code, label, answer}.
// Out: {id, done} {id, failed}, and meanwhile {progress, total} {out, stream}.
import { filesNow, filesOf, keptOf } from "./packs.js";

const TASK = "/run/cell.json", RESULT = "/run/answer.json";
const LONGEST = 200_000; // characters that a run may print
const AT_ONCE = 300; // prints that are sent one by one; after these, by the kilobyte
const CUT = "\n... (what follows is not shown)\n";
let python, printed = 0, prints = 0, held = { text: "", stream: 1 };

function send() {
  if (held.text) postMessage({ out: held.text, stream: held.stream });
  held.text = "";
}

function out(text, stream) {
  if (printed > LONGEST) return;
  if (stream !== held.stream) send();
  const room = LONGEST - printed;
  printed += text.length;
  held = { text: held.text + (text.length > room ? text.slice(0, room) + CUT : text), stream };
  if (prints++ < AT_ONCE || held.text.length > 4096 || printed > LONGEST) send();
}

// Opens a room: the files of the pack of the one that an empty file stands for.
function roomsAfter(files, rooms) {
  const empty = new Set([...new Map(files)].filter(([, bytes]) => !bytes.length).map(([path]) => path));
  return (path) => {
    const room = empty.has(path) && rooms.find(({ folders }) => folders.some((one) => path.startsWith(one)));
    if (!room) return [];
    const came = filesNow(room);
    for (const [file] of came) empty.delete(file);
    if (empty.has(path)) throw Error(`${room.url}: it lacks ${path}`);
    return came;
  };
}

const tasks = {
  async load({ engine, packs, rooms }) {
    const kept = await keptOf(rooms);
    const [{ boot }, files] = await Promise.all([
      import(`./${engine}.js`),
      filesOf([...packs, ...kept], (progress, total) => postMessage({ progress, total })),
    ]);
    python = await boot(files, out, roomsAfter(files, rooms));
    python.exec("import sys; sys.path.insert(0, '/book'); import integers, runner; integers.begin(); runner.begin()");
  },
  run({ code, label, answer }) {
    printed = prints = 0;
    python.write(TASK, new TextEncoder().encode(JSON.stringify({ code, label, answer })));
    python.exec("runner.step()");
    return JSON.parse(new TextDecoder().decode(python.read(RESULT)));
  },
};

self.onmessage = async ({ data: { id, task, ...given } }) => {
  try {
    const done = await tasks[task](given);
    send();
    postMessage({ id, done });
  } catch (error) {
    send();
    postMessage({ id, failed: String(error?.message ?? error) });
  }
};
