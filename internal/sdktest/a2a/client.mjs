// Speaks to the agent with the client of A2A's SDK as it comes, over a binding
// and in a version. It takes one command a line and prints what it hears: each
// part of a stream, with ids told by the order in which they came, then "done"
// or what was raised.
//
//	send <text>  begins a task
//	id           which one that is
//	subscribe    what follows of it
//	cancel <id>  stops one
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { Role, TaskState } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";

const [base, protocolBinding, protocolVersion] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + "\n");

const options = {
  legacyCompat: { enabled: true },
  fetchImpl: (url, init) => fetch(url, { ...init, headers: { ...init?.headers, Authorization: "Bearer a2a-test" } }),
};
const client = await new ClientFactory({
  ...ClientFactoryOptions.default,
  transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)],
}).createFromAgentCard({
  name: "speaker",
  capabilities: { streaming: true },
  supportedInterfaces: [{ url: base + (protocolBinding === "JSONRPC" ? "/rpc" : "/rest"), protocolBinding, protocolVersion, tenant: "" }],
});

let ids = [];
const numbered = (id) => "#" + (ids.includes(id) ? ids.indexOf(id) : ids.push(id) - 1);
const ID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const TIME = /"timestamp":"[^"]*"/g;

let id;
const hear = async (parts) => {
  try {
    for await (const { payload } of parts) {
      id ??= payload?.value.id ?? payload?.value.taskId;
      say(JSON.stringify({ event: payload?.$case ?? "", data: payload?.value ?? {} }).replace(ID, numbered).replace(TIME, '"timestamp":""'));
    }
    say("done");
  } catch (e) {
    say("raised " + e.message);
  }
};

const commands = {
  send: (value) => {
    ids = [];
    id = undefined;
    const parts = [{ content: { $case: "text", value }, mediaType: "text/plain", filename: "", metadata: {} }];
    const message = { messageId: randomUUID(), role: Role.ROLE_USER, parts, taskId: "", contextId: "", metadata: {}, extensions: [], referenceTaskIds: [] };
    void hear(client.sendMessageStream({ tenant: "", message, configuration: undefined, metadata: {} }));
  },
  id: () => say(id),
  subscribe: () => void hear(client.resubscribeTask({ tenant: "", id })),
  cancel: async (id) => say(TaskState[(await client.cancelTask({ tenant: "", id, metadata: {} })).status.state]),
};
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...args] = line.split(" ");
  try {
    await commands[command](...args);
  } catch (e) {
    say("raised " + e.message);
  }
}
