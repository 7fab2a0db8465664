// Calls the SDK of Anthropic as it comes.
import Anthropic from "@anthropic-ai/sdk";
import { each, serve } from "./jobs.mjs";

const client = (job) => new Anthropic({ baseURL: job.base, apiKey: "sk-test", maxRetries: job.retries ?? 0, logLevel: "off" });
const question = { model: "m", max_tokens: 9, messages: [{ role: "user", content: "go" }] };

function answer(whole) {
  const text = whole.content.map((block) => block.text ?? "").join("");
  const calls = whole.content.filter((block) => block.type === "tool_use");
  const tools = calls.map((c) => ({ call_id: c.id, name: c.name, arguments: JSON.stringify(c.input) }));
  const usage = { input_tokens: whole.usage.input_tokens, output_tokens: whole.usage.output_tokens };
  return { text, tools, usage, finish: whole.stop_reason, whole };
}

await serve({
  async "messages.stream"(job, saw) {
    const stream = client(job).messages.stream(question);
    stream.on("streamEvent", saw);
    return answer(await stream.finalMessage());
  },
  async "messages.create"(job, saw) {
    await each(await client(job).messages.create({ ...question, stream: true }), saw);
  },
});
