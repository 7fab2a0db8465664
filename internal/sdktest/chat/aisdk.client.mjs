// A chat of the AI SDK without a browser, that does what it is told, line by
// line: "send", "resume" and "stop" are what the page's buttons do, "follow"
// reads the stream of the chat as a server would. It prints "half" when the
// first piece of the answer is shown, and what became of each request. It can be
// asked to watch for what fills a silence, and given the fetch of the example.
import { createInterface } from "node:readline";
import { watching } from "./watched.mjs";

const [version, base, id, watch, example] = process.argv.slice(2);
const { AbstractChat, DefaultChatTransport, readUIMessageStream } = await import("ai" + version);

const say = (line) => process.stdout.write(line + "\n");

// browser is fetch as Chromium has it: a body that breaks says so in other
// words than those of Node.
const listen = watching(": keepalive", () => half && watch);
const browser = async (...args) => {
  const response = await listen(...args);
  if (!response.body) return response;
  const reader = response.body.getReader();
  const body = new ReadableStream({
    async pull(out) {
      try {
        const { done, value } = await reader.read();
        if (done) return out.close();
        out.enqueue(value);
      } catch (e) {
        out.error(e instanceof TypeError ? new TypeError("network error") : e);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
  return new Response(body, response);
};

const transport = new DefaultChatTransport({ api: base + "/api/chat", headers: { "X-User": "ada" }, fetch: example ? (await import(example)).resumingFetch : browser });

// state is what React keeps in the hook.
const state = {
  status: "ready",
  error: undefined,
  messages: [],
  pushMessage: (message) => show([...state.messages, message]),
  popMessage: () => show(state.messages.slice(0, -1)),
  replaceMessage: (index, message) => show(state.messages.with(index, message)),
  snapshot: (thing) => structuredClone(thing),
};

let half = false;
function show(messages) {
  state.messages = structuredClone(messages);
  if (!half && textOf(messages.at(-1)) === "It is ") {
    half = true;
    say("half");
  }
}

const textOf = (message) => message?.parts.filter((part) => part.type === "text").map((part) => part.text).join("");

class Chat extends AbstractChat {
  constructor(init) {
    super({ ...init, state });
  }
}

let count = 0;
const seen = { errors: [], finished: null };
const chat = new Chat({
  id,
  transport,
  generateId: () => "mine-" + ++count,
  onError: (error) => seen.errors.push(error.message),
  onFinish: ({ isAbort, isDisconnect, isError }) => (seen.finished = { isAbort, isDisconnect, isError }),
});

const report = async (request) => {
  half = false;
  seen.errors = [];
  seen.finished = null;
  await request();
  say(JSON.stringify({ status: chat.status, messages: chat.messages, ...seen }));
};

async function follow() {
  const stream = await transport.reconnectToStream({ chatId: id });
  if (stream === null) return say("null");
  const [parts, whole] = stream.tee();
  const types = [];
  let message = null;
  const reading = (async () => {
    for await (message of readUIMessageStream({ stream: whole }));
  })();
  for await (const part of parts) if (types.push(part.type) === 1) say("reads");
  await reading;
  say(JSON.stringify({ types, messages: [message] }));
}

const commands = {
  send: () => report(() => chat.sendMessage({ text: "How is the weather in Oslo?" })),
  resume: () => report(() => chat.resumeStream()),
  stop: () => chat.stop(),
  follow,
};
for await (const line of createInterface({ input: process.stdin })) void commands[line]();
