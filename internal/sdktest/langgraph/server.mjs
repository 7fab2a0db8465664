// A server of LangGraph as it comes, in memory, with the graphs of graphs.mjs.
// It prints its port, and each call of a graph. A graph goes on with each line
// that the server is given. A located one names the streams of its runs. (The bundler of its web interface is left out of
// what is installed: see overrides in package.json.)
import { createInterface } from "node:readline";
import { mkdtempSync, writeSync } from "node:fs";
import { resolve } from "node:path";

process.env.LOG_LEVEL = "error";
process.stdout.write = process.stderr.write.bind(process.stderr); // its log goes there
const say = (line) => writeSync(1, line + "\n");

let lines = 0;
let waiting = [];
createInterface({ input: process.stdin }).on("line", () => (waiting.length > 0 ? waiting.shift()() : lines++));
const step = (signal) =>
  new Promise((go, give) => {
    if (lines > 0) return go(lines--);
    waiting.push(go);
    signal?.addEventListener("abort", () => {
      waiting = waiting.filter((other) => other !== go);
      give(signal.reason);
    });
  });
globalThis.stage = { say, step };

const { startServer } = await import("@langchain/langgraph-api/server");
const graphs = Object.fromEntries(["talk", "ask", "fail"].map((name) => [name, resolve("graphs.mjs") + ":" + name]));
const { host } = await startServer({
  host: "127.0.0.1",
  port: 0,
  nWorkers: 10,
  cwd: mkdtempSync(resolve("data-")),
  graphs,
  http: process.argv[2] === "located" ? { app: resolve("located.mjs") + ":app" } : undefined,
});
say(host.split(":").at(-1));
