// Calls the SDK of Cohere as it comes.
import { CohereClientV2 } from "cohere-ai";
import { each, serve } from "./jobs.mjs";

const client = (job) => new CohereClientV2({ environment: job.base, token: "test", maxRetries: 0 });
const question = { model: "m", messages: [{ role: "user", content: "go" }] };

function answer(events) {
  const text = events.map((e) => (e.type === "content-delta" ? e.delta.message.content.text : "")).join("");
  const end = events.findLast((e) => e.type === "message-end")?.delta;
  const tokens = end?.usage?.tokens;
  return { text, tools: [], usage: tokens && { input_tokens: tokens.inputTokens, output_tokens: tokens.outputTokens }, finish: end?.finishReason ?? "" };
}

await serve({
  async "chat.stream"(job, saw) {
    return answer(await each(await client(job).chatStream(question), saw));
  },
});
