// Asks as the chat of version 4 does, and prints what becomes of it: "half"
// when the first piece is shown, then the whole. "resume" asks for what runs.
import { callChatApi } from "@ai-sdk/ui-utils";

const [base, requestType, watch] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + "\n");

// watched tells of a silence that is filled after the first piece.
const watched = async (...args) => {
  const response = await fetch(...args);
  const watching = new TransformStream({
    transform(text, out) {
      if (half && watch && text.startsWith("\n")) say("saw");
      out.enqueue(text);
    },
  });
  return new Response(response.body.pipeThrough(new TextDecoderStream()).pipeThrough(watching).pipeThrough(new TextEncoderStream()), response);
};

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
    fetch: watched,
  });
} catch (e) {
  out.error = e.message;
}
if (out.message) delete out.message.createdAt;
say(JSON.stringify(out));
