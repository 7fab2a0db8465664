// Asks one question with the openai SDK as it comes, and prints what became of
// it: the text that arrived, how it ended, and how often the SDK was called.
import OpenAI from "openai";

const [baseURL, stage, cut] = process.argv.slice(2);
const client = new OpenAI({
  baseURL: baseURL + "/v1",
  apiKey: "sk-test",
  defaultHeaders: { "X-Stage": stage },
});

const out = { text: "", run: null, error: null };
try {
  const { data: stream, response } = await client.chat.completions
    .create({ model: "m", stream: true, messages: [{ role: "user", content: "go" }] })
    .withResponse();
  out.run = response.headers.get("x-run-id");
  out.replayed = response.headers.get("idempotent-replayed");
  for await (const chunk of stream) {
    out.text += chunk.choices[0]?.delta?.content ?? "";
    if (out.text === cut) process.stdout.write("reached\n");
  }
} catch (e) {
  out.error = { kind: e.constructor.name, status: e.status ?? null, code: e.code ?? null, message: String(e.message) };
}
process.stdout.write(JSON.stringify(out) + "\n");
