// Answers SQL over a trace with Perfetto's own trace processor, offline, under node.
//
//   node perfetto.js DIST TRACE SQL...      prints one line of JSON: an array of rows for each query
//
// DIST is the folder with engine_bundle.js and trace_processor.wasm, the files that ui.perfetto.dev runs in a worker of
// the browser. This script is that browser, as far as they need one: they get a worker's globals, read their wasm from
// DIST, and are talked to in protocol buffers (perfetto/protos/perfetto/trace_processor/trace_processor.proto).
// Exit code 2: the trace cannot be loaded, or a query fails; why is on stderr.
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const node = process;
const [dist, trace, ...queries] = node.argv.slice(2);
const RPC = { append: 1, finalize: 2, query: 3 };
const ARGUMENT = { append: 101, query: 103 };
const RESULT = { fatal: 5, append: 201, query: 203 };

// ---------------------------------------------------------------- protocol buffers

function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, content) => Buffer.concat([varint((field << 3) | 2), varint(content.length), content]);

function* varints(buffer) {
  for (let at = 0; at < buffer.length; ) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    yield [BigInt.asIntN(64, value), at];
  }
}

function* fields(buffer) {
  for (let at = 0; at < buffer.length; ) {
    const read = () => {
      const [value, size] = varints(buffer.subarray(at)).next().value;
      at += size;
      return value;
    };
    const key = Number(read());
    if ((key & 7) === 0) {
      yield [key >> 3, read()];
    } else {
      const size = (key & 7) === 2 ? Number(read()) : (key & 7) === 1 ? 8 : 4;
      yield [key >> 3, buffer.subarray(at, (at += size))];
    }
  }
}

// ---------------------------------------------------------------- what comes back

let cells = [];
let width = 0;

function fail(text) {
  node.stderr.write(`${text}\n`);
  node.exit(2);
}

function take(stream) {
  for (const [, message] of fields(stream)) {
    for (const [field, value] of fields(message)) {
      if (field === RESULT.fatal) fail(Buffer.from(value).toString());
      if (field === RESULT.append) for (const [part, error] of fields(value)) if (part === 2) fail(Buffer.from(error).toString());
      if (field === RESULT.query) takeRows(value);
    }
  }
}

function takeRows(result) {
  for (const [field, value] of fields(result)) {
    if (field === 1) width += 1;
    if (field === 2 && value.length) fail(Buffer.from(value).toString());
    if (field === 3) takeBatch(value);
  }
}

function takeBatch(batch) {
  const column = { types: [], integers: [], floats: [], strings: [] };
  for (const [field, value] of fields(batch)) {
    if (field === 1) column.types = [...varints(value)].map(([type]) => Number(type));
    if (field === 2) column.integers = [...varints(value)].map(([integer]) => Number(integer));
    if (field === 3) for (let at = 0; at < value.length; at += 8) column.floats.push(Buffer.from(value).readDoubleLE(at));
    if (field === 5) column.strings = Buffer.from(value).toString().split("\0");
  }
  for (const type of column.types) {
    cells.push(type === 2 ? column.integers.shift() : type === 3 ? column.floats.shift() : type === 4 ? column.strings.shift() : null);
  }
}

// ---------------------------------------------------------------- a worker's globals

const file = (url) => fs.readFileSync(path.join(dist, path.basename(String(url))));
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.importScripts = () => {};
globalThis.location = { href: `file://${path.resolve(dist)}/engine_bundle.js` };
globalThis.fetch = async (url) => new Response(file(url), { headers: { "content-type": "application/wasm" } });
globalThis.XMLHttpRequest = class {
  open(_method, url) {
    this.url = url;
  }
  setRequestHeader() {}
  send() {
    this.status = 200;
    this.response = new Uint8Array(file(this.url)).buffer;
  }
};
console.warn = () => {};
Object.defineProperty(node.versions, "node", { value: undefined, configurable: true }); // or it takes its way for node
vm.runInThisContext(file("engine_bundle.js").toString(), { filename: "engine_bundle.js" });

const port = { onmessage: null, postMessage: (message) => take(Buffer.from(message)) };
globalThis.onmessage({ data: port });

let sent = 0;
function send(kind, argument) {
  const content = argument ? bytes(ARGUMENT[kind], argument) : Buffer.alloc(0);
  port.onmessage({ data: new Uint8Array(bytes(1, Buffer.concat([number(1, sent++), number(2, RPC[kind]), content]))) });
}

async function ready() {
  for (let attempt = 0; ; attempt++) {
    await new Promise((resume) => setTimeout(resume, 50));
    try {
      return send("append", Buffer.alloc(0)); // refused until the wasm is compiled
    } catch (error) {
      if (attempt === 400) throw error; // 20 s
    }
  }
}

async function main() {
  await ready();
  const content = fs.readFileSync(trace);
  for (let at = 0; at < content.length; at += 1 << 22) send("append", content.subarray(at, at + (1 << 22)));
  send("finalize");
  const answers = queries.map((query) => {
    cells = [];
    width = 0;
    send("query", bytes(1, Buffer.from(query)));
    return Array.from({ length: width ? cells.length / width : 0 }, (_, row) => cells.slice(row * width, (row + 1) * width));
  });
  node.stdout.write(`${JSON.stringify(answers)}\n`);
  node.exit(0);
}

main().catch((error) => fail(String(error.stack)));
