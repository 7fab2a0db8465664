// Calls the tool with the client of MCP's SDK as it comes, and prints what it
// hears: each progress, then the result or what was raised. Given the name of a
// session and of a frame it goes on with the call of another client.
//
//	abort  gives the call up
//	where  session and last frame
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, sessionId, resumptionToken] = process.argv.slice(2);
const say = (line) => process.stdout.write(line + "\n");
const transport = new StreamableHTTPClientTransport(new URL(url + "/mcp"), {
  sessionId,
  requestInit: { headers: { Authorization: "Bearer mcp-test" } },
  reconnectionOptions: { initialReconnectionDelay: 100, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 1.5, maxRetries: 20 },
});
const client = new Client({ name: "caller", version: "1.0.0" });
await client.connect(transport);
if (sessionId) await client.ping(); // as many requests as the other client had sent: they are numbered

let last;
const call = new AbortController();
const commands = { abort: () => call.abort("enough"), where: () => say(transport.sessionId + " " + last) };
createInterface({ input: process.stdin }).on("line", (line) => commands[line]());
try {
  const result = await client.callTool({ name: "count", arguments: {} }, undefined, {
    onprogress: ({ progress }) => say("progress " + progress),
    onresumptiontoken: (token) => (last = token),
    resumptionToken,
    signal: call.signal,
    timeout: 300_000,
  });
  say(result.content[0].text);
} catch (e) {
  say("raised " + e.message);
}
