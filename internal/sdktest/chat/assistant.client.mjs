// Asks as the runtimes of assistant-ui do, decodes with its package, and prints
// "half" when the first piece of the answer is there, then what became of it.
import { AssistantMessageAccumulator, AssistantStream, AssistantTransportDecoder, DataStreamDecoder } from "assistant-stream";
import { watching } from "./watched.mjs";

const [base, format, watch] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + "\n");

const out = { message: null, error: null };
let half = false;
try {
  const response = await watching(format === "data" ? "\n" : ": keepalive", () => half && watch)(base + "/api/chat", {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-User": "ada" },
    body: JSON.stringify({ id: "c", messages: [{ role: "user", content: [{ type: "text", text: "How is the weather in Oslo?" }] }] }),
  });
  const decoder = format === "data" ? new DataStreamDecoder() : new AssistantTransportDecoder();
  const messages = AssistantStream.fromResponse(response, decoder).pipeThrough(new AssistantMessageAccumulator());
  for await (const message of messages) {
    out.message = message;
    if (!half && message.parts.at(-1)?.text === "It is ") {
      half = true;
      say("half");
    }
  }
} catch (e) {
  out.error = e.message;
}
if (out.message) {
  // How long it took differs with each run.
  const parts = out.message.parts.map(({ timing, ...part }) => part);
  out.message = { status: out.message.status, parts };
}
say(JSON.stringify(out));
