// A backend of assistant-ui, as its package encodes it: as events
// ("transport") or as lines ("data").
import { AssistantStream, AssistantTransportEncoder, createAssistantStream, createAssistantStreamResponse } from "assistant-stream";
import { say, serve, told } from "./played.mjs";

const [format] = process.argv.slice(2);

const answer = (signal, hangUp) => async (controller) => {
  controller.appendReasoning("Who knows: ");
  controller.appendReasoning("the tool.");
  const call = controller.addToolCallPart({ toolCallId: "call-1", toolName: "weather" });
  call.argsText.append('{"city":');
  call.argsText.append('"Oslo"}');
  call.argsText.close();
  call.setResponse({ result: { celsius: -3 } });
  call.close();
  controller.appendText("It is ");
  const command = await told(signal);
  if (command === "die") return hangUp();
  if (command === "fail") throw new Error("overloaded");
  controller.appendText("cold, ");
  controller.appendText("−3 °C.");
};

serve((_, signal, hangUp) =>
  format === "data"
    ? createAssistantStreamResponse(answer(signal, hangUp))
    : AssistantStream.toResponse(createAssistantStream(answer(signal, hangUp)), new AssistantTransportEncoder()),
);
