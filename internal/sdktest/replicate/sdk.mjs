// Calls the SDK of Replicate as it comes.
import Replicate from "replicate";
import { each, serve } from "./jobs.mjs";

await serve({
  async "stream"(job, saw) {
    const client = new Replicate({ auth: "test", baseUrl: job.base + "/v1" });
    // Ids are the gateway's, and of no interest.
    const events = await each(client.stream("owner/model", { input: { prompt: "go" } }), ({ event, data }) => saw({ event, data }));
    return { text: events.map(String).join(""), tools: [], usage: null, finish: "" };
  },
});
