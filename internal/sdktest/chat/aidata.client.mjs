// Asks as the chat of version 4 does, and prints what becomes of it: "half"
// when the first piece is shown, then the whole. "resume" asks for what runs.
import { callChatApi } from "@ai-sdk/ui-utils";
import { watching } from "./watched.mjs";

const [base, requestType, watch] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + "\n");

let half = false;
const out = { message: null, finish: null, error: null };
try {
  await callChatApi({
    api: base + "/api/chat",
    body: { id: "c", messages: [{ id: "mine-1", role: "user", content: "How is the weather in Oslo?" }] },
    headers: { "X-User": "ada" },
    requestType,
    restoreMessagesOnFailure: () => {},
    onUpdate: ({ message }) => {
      out.message = message;
      if (message.content === "It is " && !half) {
        half = true;
        say("half");
      }
    },
    onFinish: (message, finish) => Object.assign(out, { message, finish }),
    generateId: () => "id",
    fetch: watching("\n", () => half && watch),
  });
} catch (e) {
  out.error = e.message;
}
if (out.message) delete out.message.createdAt;
say(JSON.stringify(out));
