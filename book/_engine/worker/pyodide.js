// Another engine behind the seam: the core of Pyodide, a newer Python without numpy.
export async function boot(files, out) {
  const { loadPyodide } = await import("./pyodide/pyodide.mjs");
  const python = await loadPyodide({ indexURL: new URL("./pyodide/", import.meta.url).href });
  for (const [set, stream] of [["setStdout", 1], ["setStderr", 2]]) {
    const decoder = new TextDecoder();
    python[set]({ write(bytes) { out(decoder.decode(bytes, { stream: true }), stream); return bytes.length; } });
  }
  const write = (path, bytes) => {
    python.FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    python.FS.writeFile(path, bytes);
  };
  for (const [path, bytes] of files) write(path, bytes);
  return { write, read: (path) => python.FS.readFile(path), exec: (code) => python.runPython(code) };
}
