// Calls the SDK of OpenAI as it comes.
import OpenAI from "openai";
import { each, serve } from "./jobs.mjs";

const client = (job) => new OpenAI({ baseURL: job.base + "/v1", apiKey: "sk-test", maxRetries: job.retries ?? 0, logLevel: "off" });
const chat = { model: "m", messages: [{ role: "user", content: "go" }] };
const run = { assistant_id: "asst_1" };

const counted = (usage) =>
  usage ? { input_tokens: usage.prompt_tokens ?? usage.input_tokens, output_tokens: usage.completion_tokens ?? usage.output_tokens } : null;

function chatAnswer(whole) {
  const { message, finish_reason: finish } = whole.choices.find((c) => c.index === 0);
  const tools = (message.tool_calls ?? []).map((c) => ({ call_id: c.id, name: c.function.name, arguments: c.function.arguments }));
  return { text: (message.content ?? "") + (message.refusal ?? ""), tools, usage: counted(whole.usage), finish, whole };
}

// What waits for the client is a call that it runs, or one that it allows.
function responseAnswer(whole) {
  const calls = whole.output.filter((item) => ["function_call", "mcp_approval_request"].includes(item.type));
  const parts = whole.output.flatMap((item) => item.content ?? []);
  const text = parts.map((p) => (p.type === "output_text" ? p.text : p.type === "refusal" ? p.refusal : "")).join("");
  const tools = calls.map((c) => ({ call_id: c.call_id ?? c.id, name: c.name, arguments: c.arguments }));
  return { text, tools, usage: counted(whole.usage), finish: "", whole };
}

async function responseOf(stream, saw) {
  await each(stream, saw);
  return responseAnswer(await stream.finalResponse());
}

await serve({
  async "chat.stream"(job, saw) {
    const stream = client(job).chat.completions.stream(chat);
    stream.on("chunk", saw);
    return chatAnswer(await stream.finalChatCompletion());
  },
  async "chat.create"(job, saw) {
    await each(await client(job).chat.completions.create({ ...chat, stream: true }), saw);
  },
  async "completions.create"(job, saw) {
    const chunks = await each(await client(job).completions.create({ model: "m", prompt: "go", stream: true }), saw);
    const first = chunks.flatMap((c) => c.choices ?? []).filter((c) => c.index === 0);
    const usage = counted(chunks.findLast((c) => c.usage)?.usage);
    return { text: first.map((c) => c.text).join(""), tools: [], usage, finish: first.findLast((c) => c.finish_reason)?.finish_reason };
  },
  async "responses.stream"(job, saw) {
    return responseOf(client(job).responses.stream({ model: "m", input: "go", background: job.background }), saw);
  },
  async "responses.create"(job, saw) {
    await each(await client(job).responses.create({ model: "m", input: "go", stream: true, background: job.background }), saw);
  },
  async "responses.resume"(job, saw) {
    await each(await client(job).responses.retrieve(job.id, { stream: true, starting_after: job.position }), saw);
  },
  async "responses.retrieve"(job) {
    return responseAnswer(await client(job).responses.retrieve(job.id));
  },
  async "responses.cancel"(job) {
    return responseAnswer(await client(job).responses.cancel(job.id));
  },
  async "threads.stream"(job, saw) {
    const stream = client(job).beta.threads.runs.stream("thread_1", run);
    stream.on("event", saw);
    const [messages, whole] = [await stream.finalMessages(), await stream.finalRun()];
    const text = messages.flatMap((m) => m.content.map((part) => part.text?.value ?? "")).join("");
    return { text, tools: [], usage: counted(whole.usage), finish: whole.status, whole };
  },
});
