export { default as load } from "@cowasm/kernel/dist/wasm/worker/import.js";
export { Volume, createFsFromVolume } from "@cowasm/memfs";
export { Buffer } from "buffer";
export { default as path } from "path-browserify";
