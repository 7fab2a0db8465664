// A server of MCP as its SDK makes it, with a tool that tells its progress and
// goes on with each line that it is given. It prints its port, each call of the
// tool and its end, and each request to go on with a stream. A forgetful one
// keeps no frames.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { InMemoryEventStore } from "@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js";

const say = (line) => process.stdout.write(line + "\n");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const server = new McpServer({ name: "counter", version: "1.0.0" });
server.registerTool("count", { description: "Counts to three." }, async (extra) => {
  say("called");
  extra.signal.addEventListener("abort", () => say("aborted"));
  for (let progress = 1; progress <= 3; progress++) {
    await lines.next();
    await extra.sendNotification({
      method: "notifications/progress",
      params: { progressToken: extra._meta.progressToken, progress, total: 3 },
    });
  }
  await lines.next();
  say("answered");
  return { content: [{ type: "text", text: "counted" }] };
});

const eventStore = process.argv[2] === "forgetful" ? undefined : new InMemoryEventStore();
const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, eventStore });
await server.connect(transport);
const http = createServer((req, res) => {
  if (req.headers["last-event-id"]) say("resumed");
  transport.handleRequest(req, res);
});
http.listen(0, "127.0.0.1", () => say(String(http.address().port)));
