// Runs the agent with AG-UI's own client, under a run id of its choice, and
// prints "half" when the first piece is there, then what became of it.
import { HttpAgent } from "@ag-ui/client";
import { watching } from "./watched.mjs";

const [base, runId, watch, example] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + "\n");

let half = false;
const agent = new HttpAgent({
  url: base + "/api/chat",
  threadId: "c",
  initialMessages: [{ id: "mine-1", role: "user", content: "How is the weather in Oslo?" }],
  headers: { "X-User": "ada" },
  fetch: example ? (await import(example)).resumingFetch : watching(": keepalive", () => half && watch),
});
const out = { messages: null, error: null, finished: false };
agent.subscribe({
  onTextMessageContentEvent: ({ textMessageBuffer, event }) => {
    if (textMessageBuffer + event.delta === "It is ") {
      half = true;
      say("half");
    }
  },
  onRunErrorEvent: ({ event }) => {
    out.error = { message: event.message, code: event.code };
  },
  onRunFinishedEvent: () => {
    out.finished = true;
  },
});
try {
  await agent.runAgent({ runId });
} catch (e) {
  out.error ??= { message: e.message };
}
out.messages = agent.messages;
say(JSON.stringify(out));
process.exit(0);
