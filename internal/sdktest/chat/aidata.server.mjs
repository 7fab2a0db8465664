// The same backend for the data streams of version 4.
import { streamText, tool } from "ai4";
import { MockLanguageModelV1, convertArrayToReadableStream } from "ai4/test";
import { z } from "zod";
import { serve, told } from "./played.mjs";

const lookUp = [
  { type: "reasoning", textDelta: "Who knows: " },
  { type: "reasoning", textDelta: "the tool." },
  { type: "tool-call-delta", toolCallType: "function", toolCallId: "call-1", toolName: "weather", argsTextDelta: '{"city":' },
  { type: "tool-call-delta", toolCallType: "function", toolCallId: "call-1", toolName: "weather", argsTextDelta: '"Oslo"}' },
  { type: "tool-call", toolCallType: "function", toolCallId: "call-1", toolName: "weather", args: '{"city":"Oslo"}' },
  { type: "finish", finishReason: "tool-calls", usage: { promptTokens: 10, completionTokens: 5 } },
];

async function* answer(signal, hangUp) {
  yield { type: "text-delta", textDelta: "It is " };
  const command = await told(signal);
  if (command === "die") return hangUp();
  if (command === "fail") return yield { type: "error", error: new Error("secret: overloaded") };
  yield { type: "text-delta", textDelta: "cold, " };
  yield { type: "text-delta", textDelta: "−3 °C." };
  yield { type: "finish", finishReason: "stop", usage: { promptTokens: 20, completionTokens: 7 } };
}

serve(async (body, signal, hangUp) => {
  let step = 0;
  const result = streamText({
    model: new MockLanguageModelV1({
      doStream: async ({ abortSignal }) => ({
        stream: step++ === 0 ? convertArrayToReadableStream(lookUp) : ReadableStream.from(answer(abortSignal, hangUp)),
        rawCall: { rawPrompt: null, rawSettings: {} },
      }),
    }),
    messages: body.messages,
    tools: {
      weather: tool({ description: "The weather of a city.", parameters: z.object({ city: z.string() }), execute: async () => ({ celsius: -3 }) }),
    },
    maxSteps: 2,
    toolCallStreaming: true,
    abortSignal: signal,
    experimental_generateMessageId: () => "answer-" + body.messages.length,
    onError: () => {},
  });
  return result.toDataStreamResponse({ sendReasoning: true });
});
