// What the played backends have in common.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

export const say = (line) => process.stdout.write(line + "\n");

// told is the next line, or fails with the signal; the line is then another's.
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let awaited;
export const told = async (signal) => {
  awaited ??= lines.next().finally(() => (awaited = undefined));
  const aborted = new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
  return (await Promise.race([awaited, aborted])).value;
};

// serve answers POST with what respond returns, says "asked" for each, and has
// nothing else. It prints its port.
export function serve(respond) {
  const http = createServer(async (req, res) => {
    if (req.method !== "POST") {
      say(req.method);
      return res.writeHead(404).end();
    }
    say("asked");
    const gone = new AbortController();
    res.on("close", () => gone.abort());
    const body = JSON.parse(Buffer.concat(await req.toArray()));
    const response = await respond(body, gone.signal, () => req.socket.resetAndDestroy());
    res.writeHead(response.status, Object.fromEntries(response.headers));
    Readable.fromWeb(response.body).on("error", () => {}).pipe(res);
  });
  http.listen(0, "127.0.0.1", () => say(String(http.address().port)));
}
