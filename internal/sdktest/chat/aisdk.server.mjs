// A chat backend of the AI SDK, as its documentation makes them, with a model
// that is played. The model thinks, asks a tool, and answers in pieces; after
// the first piece it waits for a line: "go" lets it end, "fail" makes the
// model fail, "die" resets the connection. It prints its port, each request
// that reaches it, and what it is told of an abort.
import { z } from "zod";
import { say, serve, told } from "./played.mjs";

const [version] = process.argv.slice(2);
const { streamText, tool, stepCountIs, convertToModelMessages, createUIMessageStreamResponse, toUIMessageStream } = await import("ai" + version);
const { MockLanguageModelV2, MockLanguageModelV4, convertArrayToReadableStream } = await import(`ai${version}/test`);

// What an end looks like is all in which the two versions of models differ.
const ends = {
  5: (reason, input, output) => ({ finishReason: reason, usage: { inputTokens: input, outputTokens: output, totalTokens: input + output } }),
  7: (reason, input, output) => ({ finishReason: { unified: reason, raw: reason }, usage: { inputTokens: { total: input }, outputTokens: { total: output } } }),
};
const end = (...args) => ({ type: "finish", ...ends[version](...args) });

const lookUp = [
  { type: "stream-start", warnings: [] },
  { type: "reasoning-start", id: "r" },
  { type: "reasoning-delta", id: "r", delta: "Who knows: " },
  { type: "reasoning-delta", id: "r", delta: "the tool." },
  { type: "reasoning-end", id: "r" },
  { type: "tool-input-start", id: "call-1", toolName: "weather" },
  { type: "tool-input-delta", id: "call-1", delta: '{"city":' },
  { type: "tool-input-delta", id: "call-1", delta: '"Oslo"}' },
  { type: "tool-input-end", id: "call-1" },
  { type: "tool-call", toolCallId: "call-1", toolName: "weather", input: '{"city":"Oslo"}' },
  end("tool-calls", 10, 5),
];

async function* answer(signal, hangUp) {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "t" };
  yield { type: "text-delta", id: "t", delta: "It is " };
  const command = await told(signal);
  if (command === "die") return hangUp();
  if (command === "fail") {
    yield { type: "error", error: new Error("secret: overloaded") };
    yield end("error", 20, 1);
    return;
  }
  yield { type: "text-delta", id: "t", delta: "cold, " };
  yield { type: "text-delta", id: "t", delta: "−3 °C." };
  yield { type: "text-end", id: "t" };
  yield end("stop", 20, 7);
}

serve(async (body, signal, hangUp) => {
  let step = 0;
  const Model = MockLanguageModelV4 ?? MockLanguageModelV2;
  const result = streamText({
    model: new Model({
      doStream: async ({ abortSignal }) => ({
        stream: step++ === 0 ? convertArrayToReadableStream(lookUp) : ReadableStream.from(answer(abortSignal, hangUp)),
      }),
    }),
    messages: await convertToModelMessages(body.messages),
    tools: {
      weather: tool({ description: "The weather of a city.", inputSchema: z.object({ city: z.string() }), execute: async () => ({ celsius: -3 }) }),
    },
    stopWhen: stepCountIs(2),
    abortSignal: signal,
    onAbort: () => say("aborted"),
    onError: () => {},
  });
  const options = {
    originalMessages: body.messages,
    generateMessageId: () => "answer-" + body.messages.length,
    messageMetadata: ({ part }) => (part.type === "finish" ? { totalUsage: part.totalUsage } : undefined),
  };
  return version === "5"
    ? result.toUIMessageStreamResponse(options)
    : createUIMessageStreamResponse({ stream: toUIMessageStream({ stream: result.stream, ...options }) });
});
