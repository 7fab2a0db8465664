// Does jobs with an SDK: each line of stdin is one, as JSON, and is answered by
// one line that tells what became of it.
import { createInterface } from "node:readline";

// The header fields of a job go with each of its requests: they choose the
// script of the upstream, and the subject. The SDKs know nothing of them.
const plain = globalThis.fetch;
let heading = {};
let answers = [];
let wires = [];
let filler = "";
globalThis.fetch = async (input, init) => {
  const request = new Request(input, init);
  for (const [name, value] of Object.entries(heading)) request.headers.set(name, value);
  const response = await plain(request);
  answers.push({
    status: response.status,
    run: response.headers.get("x-run-id") ?? "",
    replayed: response.headers.get("idempotent-replayed") ?? "",
  });
  if (filler) wires.push(watch(response.clone().body));
  return response;
};

// watch reads what came over the wire, and says "filled" when it ends with the
// filler for the first time since there was anything else.
async function watch(body) {
  let text = "";
  let told = false;
  const decoder = new TextDecoder();
  try {
    for await (const bytes of body) {
      const piece = decoder.decode(bytes, { stream: true });
      told &&= piece.replaceAll(filler, "") === "";
      text += piece;
      if (told || !text.endsWith(filler)) continue;
      told = true;
      process.stdout.write("filled\n");
    }
  } catch {
    // The SDK tells of it.
  }
  return text;
}

// kinds are the classes of an error, its own first.
function kinds(error) {
  const names = [];
  for (let p = Object.getPrototypeOf(error); p && p !== Object.prototype; p = Object.getPrototypeOf(p)) names.push(p.constructor.name);
  return names;
}

function described(error) {
  if (!(error instanceof Error)) return { kinds: [typeof error], message: JSON.stringify(error), code: "", status: 0 };
  return {
    kinds: kinds(error),
    message: String(error.message),
    code: String(error.code ?? ""),
    status: error.status ?? error.statusCode ?? error.status_code ?? 0,
  };
}

// serve does the jobs. A call gets the job and a function that takes each chunk;
// after the chunk whose number is job.after the script says "reached" and the run.
export async function serve(calls) {
  for await (const line of createInterface({ input: process.stdin })) {
    const job = JSON.parse(line);
    const out = { chunks: [], answer: null, error: null };
    heading = job.header ?? {};
    filler = job.filler ?? "";
    answers = [];
    wires = [];
    const saw = (chunk) => {
      out.chunks.push(JSON.stringify(chunk));
      if (out.chunks.length === job.after) process.stdout.write("reached " + answers.at(-1).run + "\n");
    };
    try {
      out.answer = await calls[job.call](job, saw);
    } catch (error) {
      out.error = described(error);
    }
    process.stdout.write(JSON.stringify({ ...out, answers, wire: (await Promise.all(wires)).join("") }) + "\n");
  }
}

// each takes the chunks of an iterable one by one, and returns them all.
export async function each(stream, saw) {
  const all = [];
  for await (const chunk of stream) {
    saw(chunk);
    all.push(chunk);
  }
  return all;
}
