// Graphs whose model is scripted: it says one word with each step of the stage.
import { SimpleChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import { END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

const { say, step } = globalThis.stage;

class Scripted extends SimpleChatModel {
  _llmType() {
    return "scripted";
  }
  async _call() {
    return "one two three";
  }
  async *_streamResponseChunks(_messages, { signal }, manager) {
    for (const word of ["one ", "two ", "three"]) {
      await step(signal);
      yield new ChatGenerationChunk({ message: new AIMessageChunk(word), text: word });
      await manager?.handleLLMNewToken(word);
    }
  }
}

const model = new Scripted({});
const answer = async ({ messages }) => {
  say("called");
  return { messages: [await model.invoke(messages)] };
};
const graph = (last) =>
  new StateGraph(MessagesAnnotation)
    .addNode("answer", answer)
    .addNode("last", last)
    .addEdge(START, "answer")
    .addEdge("answer", "last")
    .addEdge("last", END)
    .compile();

export const talk = graph((_state, config) => {
  config.writer({ noted: true });
  return {};
});
export const ask = graph(() => {
  interrupt("Which one?");
  return {};
});
export const fail = graph(() => {
  throw new Error("broken on purpose");
});
