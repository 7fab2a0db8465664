// Calls the tool with the client of MCP's SDK as it comes, and prints what it
// hears: each progress, then the result.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const say = (line) => process.stdout.write(line + "\n");
const client = new Client({ name: "caller", version: "1.0.0" });
await client.connect(
  new StreamableHTTPClientTransport(new URL(process.argv[2] + "/mcp"), {
    requestInit: { headers: { Authorization: "Bearer mcp-test" } },
    reconnectionOptions: { initialReconnectionDelay: 100, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 1.5, maxRetries: 20 },
  }),
);
const result = await client.callTool({ name: "count", arguments: {} }, undefined, {
  onprogress: ({ progress }) => say("progress " + progress),
  timeout: 120_000,
});
say(result.content[0].text);
process.exit(0);
