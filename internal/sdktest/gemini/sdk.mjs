// Calls the SDK of Gemini as it comes.
import { GoogleGenAI } from "@google/genai";
import { each, serve } from "./jobs.mjs";

// The head of the answer is no part of a chunk.
const headless = (saw) => (chunk) => saw({ ...chunk, sdkHttpResponse: undefined });

const client = (job) => new GoogleGenAI({ apiKey: "test", httpOptions: { baseUrl: job.base } });

function answer(chunks) {
  const first = chunks.flatMap((c) => c.candidates?.slice(0, 1) ?? []);
  const parts = first.flatMap((c) => c.content?.parts ?? []);
  const text = parts.filter((p) => !p.thought).map((p) => p.text ?? "").join("");
  const calls = parts.flatMap((p) => p.functionCall ?? []);
  const tools = calls.map((c) => ({ call_id: c.id ?? "", name: c.name, arguments: JSON.stringify(c.args ?? {}) }));
  const u = chunks.findLast((c) => c.usageMetadata)?.usageMetadata;
  const usage = u && {
    input_tokens: (u.promptTokenCount ?? 0) + (u.toolUsePromptTokenCount ?? 0),
    output_tokens: (u.candidatesTokenCount ?? 0) + (u.thoughtsTokenCount ?? 0),
  };
  return { text, tools, usage, finish: first.findLast((c) => c.finishReason)?.finishReason ?? "" };
}

function interaction(events) {
  const deltas = events.filter((e) => e.event_type === "step.delta");
  const text = deltas.map((e) => (e.delta.type === "text" ? e.delta.text : "")).join("");
  const tools = events
    .filter((e) => e.event_type === "step.start" && e.step.type === "function_call")
    .map(({ index, step }) => {
      const pieces = deltas.filter((e) => e.index === index && e.delta.type === "arguments_delta").map((e) => e.delta.arguments);
      return { call_id: step.id, name: step.name, arguments: pieces.join("") };
    });
  const whole = events.findLast((e) => e.event_type === "interaction.completed")?.interaction;
  const u = whole?.usage;
  const usage = u && {
    input_tokens: (u.total_input_tokens ?? 0) + (u.total_tool_use_tokens ?? 0),
    output_tokens: (u.total_output_tokens ?? 0) + (u.total_thought_tokens ?? 0),
  };
  return { text, tools, usage, finish: whole?.status ?? "", whole };
}

await serve({
  async "models.stream"(job, saw) {
    return answer(await each(await client(job).models.generateContentStream({ model: "gemini-pro", contents: "go" }), headless(saw)));
  },
  async "interactions.stream"(job, saw) {
    return interaction(await each(await client(job).interactions.create({ model: "gemini-pro", input: "go", stream: true }), saw));
  },
});
