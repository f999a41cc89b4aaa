// One engine behind the seam: CPython 3.11 and numpy, from the package python-wasm. All lies in memory.
// Its kernel's script comes with the pack, where it is a third as long.
const PYTHON = "/usr/lib/python.wasm", KERNEL = "/usr/lib/kernel.wasm", SCRIPT = "/usr/lib/kernel.js";
const MEMORY = 1000; // MB that Python may take
const AT_ONCE = 65_536; // random bytes that a browser gives at a time
const STREAMS = [["stderr", "w"], ["stdout", "w"], ["stdin", "r"]];

function ended(how) {
  return (code) => { throw Error(`Python ${how} (${code})`); };
}

const bindings = {
  hrtime: () => BigInt(Math.round(performance.now() * 1e6)),
  exit: ended("ended itself"),
  kill: ended("was ended"),
  isTTY: () => false,
  randomFillSync(bytes, from = 0, count = bytes.length - from) {
    for (let at = from; at < from + count; at += AT_ONCE)
      crypto.getRandomValues(bytes.subarray(at, Math.min(from + count, at + AT_ONCE)));
    return bytes;
  },
};

// The kernel's script, a module like any other once it has an address.
async function kernelOf(files) {
  const [[, bytes]] = files.filter(([file]) => file === SCRIPT);
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  try { return await import(url); } finally { URL.revokeObjectURL(url); }
}

// A file system with the standard streams, in which `write` makes folders as they are needed. What
// `coming(file)` gives is written before a file is opened.
function fileSystem({ Buffer, Volume, createFsFromVolume, path }, coming) {
  const volume = new Volume(), fs = createFsFromVolume(volume), made = new Set();
  fs.mkdirSync("/dev");
  fs.mkdirSync("/tmp");
  volume.releasedFds = [0, 1, 2];
  for (const [name, mode] of STREAMS) {
    fs.writeFileSync(`/dev/${name}`, "");
    fs.openSync(`/dev/${name}`, mode);
  }
  const write = (file, bytes) => {
    const folder = path.dirname(file);
    if (!made.has(folder)) fs.mkdirSync(folder, { recursive: true });
    made.add(folder);
    fs.writeFileSync(file, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), { mode: 0o777 });
  };
  const open = fs.openSync;
  fs.openSync = (file, ...how) => {
    for (const one of coming(file)) write(...one);
    return open(file, ...how);
  };
  return { fs, write };
}

function options(out, Buffer) {
  const decoders = [1, 2].map(() => new TextDecoder());
  const send = (stream) => (bytes) => out(decoders[stream - 1].decode(bytes, { stream: true }), stream);
  return {
    env: { PYTHONHOME: "/usr", PYTHONEXECUTABLE: PYTHON, PYTHONDONTWRITEBYTECODE: "1", HOME: "/", PYTHONHASHSEED: "0" },
    noStdio: true,
    sleep(ms) { for (const end = performance.now() + ms; performance.now() < end; ); },
    getStdin: () => Buffer.alloc(0),
    sendStdout: send(1),
    sendStderr: send(2),
    wasmEnv: { wasmGetSignalState: () => 0 },
  };
}

export async function boot(files, out, coming) {
  const kernelScript = await kernelOf(files), { load, path, Buffer } = kernelScript;
  const { fs, write } = fileSystem(kernelScript, coming), big = new Map();
  for (const [file, bytes] of files.filter(([file]) => file !== SCRIPT))
    file.endsWith(".wasm") ? big.set(file, bytes) : write(file, bytes);
  fs.writeFileSync(PYTHON, ""); // that it exists is all that is asked of it
  // The two big modules are compiled side by side, off this thread; extension modules when they are imported.
  const compiled = new Map(await Promise.all(
    [...big].map(async ([file, bytes]) => [file, await WebAssembly.compile(bytes)]),
  ));
  const bytesOf = (file) => big.get(file) ?? fs.readFileSync(file);
  const instance = (file, imports) =>
    new WebAssembly.Instance(compiled.get(file) ?? new WebAssembly.Module(bytesOf(file)), imports);
  const kernel = await load({
    source: KERNEL,
    bindings: { ...bindings, path, fs, posix: { getpid: () => 1, getppid: () => 1 } },
    options: options(out, Buffer),
    importWebAssembly: async (file, imports) => instance(file, imports),
    importWebAssemblySync: instance,
    readFileSync: bytesOf,
    maxMemoryMB: MEMORY,
  });
  const call = (name, text) => kernel.callWithString({ name, dll: PYTHON }, text);
  call("cowasm_python_init");
  return {
    write,
    read: (file) => fs.readFileSync(file),
    exec(code) { if (call("cowasm_python_exec", code)) throw Error("Python could not run the book's runner"); },
  };
}
