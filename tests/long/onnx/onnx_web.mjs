// Runs an exported network in onnxruntime-web, its WebAssembly build, under Node.
//
//   node onnx_web.mjs MODULES FILE.onnx PIXELS COUNT CxHxW LOGITS
//
// MODULES: the folder with node_modules/onnxruntime-web. PIXELS: uint8, COUNT pictures. Writes the
// logits as float32 to LOGITS.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, file, pixels, count, size, logits] = process.argv.slice(2);
const ort = createRequire(`${modules}/`)("onnxruntime-web");
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";
const session = await ort.InferenceSession.create(readFileSync(file), {
  executionProviders: ["wasm"],
});
const dims = size.split("x").map(Number);
const bytes = dims.reduce((product, dim) => product * dim, 1);
const all = readFileSync(pixels);
const found = [];
for (let first = 0; first < Number(count); first += 50) {
  const some = Math.min(50, Number(count) - first);
  const batch = new Uint8Array(all.subarray(first * bytes, (first + some) * bytes));
  const feeds = { pixels: new ort.Tensor("uint8", batch, [some, ...dims]) };
  found.push(Buffer.from((await session.run(feeds)).logits.data.slice().buffer));
}
writeFileSync(logits, Buffer.concat(found));
