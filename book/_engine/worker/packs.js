// Packs: fetched, kept by the browser, and taken apart (book/_engine/packs.py makes them).
import { XzReadableStream } from "./xz.js";

export const KEPT = "dtlib-python"; // the browser's store; what a server says of keeping does not matter
const MORE = 0, ENDED = 1; // what the decompressor says

const kept = () => globalThis.caches?.open(KEPT).catch(() => null);

// The bytes of a pack, as they lie in the store or as the server sends them.
async function packed({ url, size }, came) {
  const store = await kept(), held = await store?.match(url);
  if (held) {
    came(size);
    return new Uint8Array(await held.arrayBuffer());
  }
  const answer = await fetch(url);
  if (!answer.ok) throw Error(`${url}: ${answer.status}`);
  const bytes = new Uint8Array(size);
  let at = 0;
  for await (const part of parts(answer.body)) {
    if (at + part.length > size) throw Error(`${url}: more than the ${size} bytes that it should have`);
    bytes.set(part, at);
    at += part.length;
    came(part.length);
  }
  if (at < size) throw Error(`${url}: ${at} of ${size} bytes`);
  await store?.put(url, new Response(bytes)).catch(() => {});
  return bytes;
}

async function* parts(stream) {
  const reader = stream.getReader();
  for (let read; !(read = await reader.read()).done; ) yield read.value;
}

// What xz decompresses with, without the stream around it: an import cannot wait for a stream.
function decompressed(bytes) {
  const xz = XzReadableStream._moduleInstance.exports, context = xz.create_context(), parts = [];
  const words = () => new Uint32Array(xz.memory.buffer, context); // room, input, at, end, output, count
  for (let at = 0, state = MORE; state === MORE; ) {
    const [room, input, read, end] = words();
    if (read === end) {
      const part = bytes.subarray(at, (at += room));
      new Uint8Array(xz.memory.buffer).set(part, input);
      xz.supply_input(context, part.length);
    }
    state = xz.get_next_output(context);
    const [, , , , output, count] = words();
    parts.push(new Uint8Array(xz.memory.buffer.slice(output, output + count)));
    words()[5] = 0;
    if (state > ENDED) throw Error(`a pack that is not xz (${state})`);
  }
  xz.destroy_context(context);
  return joined(parts);
}

function joined(parts) {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
  return all;
}

function unpacked(bytes) {
  const all = decompressed(bytes), listed = 4 + new DataView(all.buffer).getUint32(0);
  let at = listed;
  return JSON.parse(new TextDecoder().decode(all.subarray(4, listed))).map(([path, size]) => [
    path,
    all.subarray(at, (at += size)),
  ]);
}

/** The files of packs, [path, bytes] each. `progress(bytes, of)` is called as they come. */
export async function filesOf(packs, progress) {
  const total = packs.reduce((sum, { size }) => sum + size, 0);
  let came = 0, told = 0;
  const more = (count) => {
    came += count;
    if (came - told > 32_768 || came === total) progress((told = came), total);
  };
  const [all] = await Promise.all([
    Promise.all(packs.map((one) => packed(one, more))),
    XzReadableStream._getModuleInstance(),
  ]);
  return all.flatMap(unpacked);
}

/** Those of `packs` that the browser has kept. */
export async function keptOf(packs) {
  const store = await kept();
  const held = await Promise.all(packs.map(({ url }) => store?.match(url)));
  return packs.filter((_, place) => held[place]);
}

/** The files of a pack at once, for Python that waits; it is kept when Python has come to an end. */
export function filesNow({ url, size }) {
  const asked = new XMLHttpRequest();
  asked.open("GET", url, false);
  asked.responseType = "arraybuffer";
  try { asked.send(); } catch { throw Error(`${url}: it does not come`); }
  if (asked.status !== 200) throw Error(`${url}: ${asked.status}`);
  const bytes = new Uint8Array(asked.response);
  if (bytes.length !== size) throw Error(`${url}: ${bytes.length} of ${size} bytes`);
  kept()?.then((store) => store?.put(url, new Response(bytes))).catch(() => {});
  return unpacked(bytes);
}
