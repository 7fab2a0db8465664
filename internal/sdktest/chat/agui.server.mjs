// An agent of AG-UI, as its encoder writes it, that is told how to go on as the
// backends of the AI SDK are.
import { EventEncoder } from "@ag-ui/encoder";
import { serve, told } from "./played.mjs";

async function* run({ threadId, runId }, signal, hangUp) {
  yield { type: "RUN_STARTED", threadId, runId };
  yield { type: "REASONING_START", messageId: "r" };
  yield { type: "REASONING_MESSAGE_START", messageId: "r", role: "reasoning" };
  yield { type: "REASONING_MESSAGE_CONTENT", messageId: "r", delta: "Who knows: " };
  yield { type: "REASONING_MESSAGE_CONTENT", messageId: "r", delta: "the tool." };
  yield { type: "REASONING_MESSAGE_END", messageId: "r" };
  yield { type: "REASONING_END", messageId: "r" };
  yield { type: "TOOL_CALL_START", toolCallId: "call-1", toolCallName: "weather" };
  yield { type: "TOOL_CALL_ARGS", toolCallId: "call-1", delta: '{"city":' };
  yield { type: "TOOL_CALL_ARGS", toolCallId: "call-1", delta: '"Oslo"}' };
  yield { type: "TOOL_CALL_END", toolCallId: "call-1" };
  yield { type: "TOOL_CALL_RESULT", messageId: "result-1", toolCallId: "call-1", content: '{"celsius":-3}', role: "tool" };
  yield { type: "TEXT_MESSAGE_START", messageId: "answer-1", role: "assistant" };
  yield { type: "TEXT_MESSAGE_CONTENT", messageId: "answer-1", delta: "It is " };
  const command = await told(signal);
  if (command === "die") return hangUp();
  if (command === "fail") return yield { type: "RUN_ERROR", message: "overloaded", code: "busy" };
  yield { type: "TEXT_MESSAGE_CONTENT", messageId: "answer-1", delta: "cold, " };
  yield { type: "TEXT_MESSAGE_CONTENT", messageId: "answer-1", delta: "−3 °C." };
  yield { type: "TEXT_MESSAGE_END", messageId: "answer-1" };
  yield { type: "RUN_FINISHED", threadId, runId };
}

serve((input, signal, hangUp) => {
  const encoder = new EventEncoder();
  const encode = new TransformStream({ transform: (event, out) => out.enqueue(encoder.encode(event)) });
  const events = ReadableStream.from(run(input, signal, hangUp)).pipeThrough(encode).pipeThrough(new TextEncoderStream());
  return new Response(events, { headers: { "Content-Type": encoder.getContentType() } });
});
