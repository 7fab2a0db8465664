// An agent of A2A as its SDK serves it: over JSON-RPC and plain HTTP, in
// versions 1.0 and 0.3. It says a word with each line that it is given, and
// prints its port, each task that it takes and each that is cancelled. What it
// does after three words is what it was asked for.
import { createInterface } from "node:readline";
import express from "express";
import { Role, TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { jsonRpcHandler, restHandler, UserBuilder } from "@a2a-js/sdk/server/express";

const say = (line) => process.stdout.write(line + "\n");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const text = (value) => ({ content: { $case: "text", value }, mediaType: "text/plain", filename: "", metadata: {} });
const contexts = new Map(); // of the tasks that run

const agent = {
  async execute({ taskId, contextId, userMessage }, bus) {
    say("called");
    contexts.set(taskId, contextId);
    const names = { taskId, contextId, metadata: {} };
    const told = (words) => ({ ...names, messageId: "told", role: Role.ROLE_AGENT, parts: [text(words)], extensions: [], referenceTaskIds: [] });
    const stands = (state, message) =>
      bus.publish(AgentEvent.statusUpdate({ ...names, status: { state, message, timestamp: new Date().toISOString() } }));
    bus.publish(
      AgentEvent.task({
        ...names,
        id: taskId,
        status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: new Date().toISOString() },
        artifacts: [],
        history: [],
      }),
    );
    stands(TaskState.TASK_STATE_WORKING);
    for (const [n, word] of ["one ", "two ", "three"].entries()) {
      await lines.next();
      if (!contexts.has(taskId)) return; // cancelled
      const artifact = { artifactId: "answer", name: "", description: "", parts: [text(word)], metadata: {}, extensions: [] };
      bus.publish(AgentEvent.artifactUpdate({ ...names, artifact, append: n > 0, lastChunk: n === 2 }));
    }
    const want = userMessage.parts[0].content.value;
    if (want === "fail") throw new Error("broken on purpose");
    if (want === "ask") return stands(TaskState.TASK_STATE_INPUT_REQUIRED, told("Which one?"));
    stands(TaskState.TASK_STATE_COMPLETED);
  },
  async cancelTask(taskId, bus) {
    say("cancelled");
    const status = { state: TaskState.TASK_STATE_CANCELED, message: undefined, timestamp: new Date().toISOString() };
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId: contexts.get(taskId), status, metadata: {} }));
    bus.finished();
    contexts.delete(taskId);
  },
};

const interfaces = ["JSONRPC", "HTTP+JSON"].flatMap((protocolBinding) =>
  ["1.0", "0.3"].map((protocolVersion) => ({ url: "http://localhost/", protocolBinding, tenant: "", protocolVersion })),
);
const card = { name: "speaker", capabilities: { streaming: true, extensions: [] }, supportedInterfaces: interfaces, skills: [] };
const options = {
  requestHandler: new DefaultRequestHandler(card, new InMemoryTaskStore(), agent),
  userBuilder: UserBuilder.noAuthentication,
  legacyCompat: { enabled: true },
};
const app = express();
app.use("/rpc", jsonRpcHandler(options));
app.use("/rest", restHandler(options));
const http = app.listen(0, "127.0.0.1", () => say(String(http.address().port)));
