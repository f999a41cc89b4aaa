// Packs: fetched, kept by the browser, and taken apart (book/_engine/packs.py makes them).
import { XzReadableStream } from "./xz.js";

export const KEPT = "dtlib-python"; // the browser's store; what a server says of keeping does not matter

// The bytes of a pack, as they lie in the store or as the server sends them.
async function packed({ url, size }, came) {
  const store = await globalThis.caches?.open(KEPT).catch(() => null);
  const kept = await store?.match(url);
  if (kept) {
    came(size);
    return new Uint8Array(await kept.arrayBuffer());
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

async function unpacked(bytes) {
  const stream = new XzReadableStream(new Blob([bytes]).stream());
  const all = new Uint8Array(await new Response(stream).arrayBuffer());
  const listed = 4 + new DataView(all.buffer).getUint32(0);
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
  const files = await Promise.all(packs.map(async (one) => unpacked(await packed(one, more))));
  return files.flat();
}
