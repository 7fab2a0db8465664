// Calls the SDK of Ollama as it comes.
import { Ollama } from "ollama";
import { each, serve } from "./jobs.mjs";

const client = (job) => new Ollama({ host: job.base });

function answer(chunks) {
  const text = chunks.map((c) => c.message?.content ?? c.response ?? "").join("");
  const calls = chunks.flatMap((c) => c.message?.tool_calls ?? []);
  const tools = calls.map((c) => ({ call_id: "", name: c.function.name, arguments: JSON.stringify(c.function.arguments) }));
  const last = chunks.at(-1);
  return { text, tools, usage: { input_tokens: last.prompt_eval_count, output_tokens: last.eval_count }, finish: last.done_reason };
}

await serve({
  async "chat.stream"(job, saw) {
    return answer(await each(await client(job).chat({ model: "m", messages: [{ role: "user", content: "go" }], stream: true }), saw));
  },
  async "generate.stream"(job, saw) {
    return answer(await each(await client(job).generate({ model: "m", prompt: "go", stream: true }), saw));
  },
});
