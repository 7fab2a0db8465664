// Runs graphs with the client of LangGraph's SDK as it comes. It takes one
// command a line and prints what it hears: each part of a stream, with ids told
// by the order in which they came, then "done" or what was raised.
//
//	stream <graph> <modes> <resumable>   begins a run on a thread of its own
//	alone <graph> <modes>                likewise, without a thread
//	join                                 the rest after the last part
//	attach <thread> <run>                a run of another client, from the beginning
//	cancel <action>                      stops the run
//	status                               what the server says of the run
//	run                                  thread and run
import { createInterface } from "node:readline";
import { Client } from "@langchain/langgraph-sdk";

const say = (line) => process.stdout.write(line + "\n");
const { runs, threads } = new Client({ apiUrl: process.argv[2], apiKey: "lg-test" });

let ids = [];
const numbered = (id) => "#" + (ids.includes(id) ? ids.indexOf(id) : ids.push(id) - 1);
const ID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}/g;

let thread, run, last;
const hear = async (parts) => {
  try {
    for await (const { id, event, data } of parts) {
      last = id ?? last;
      say(JSON.stringify({ event, data }).replace(ID, numbered));
    }
    say("done");
  } catch (e) {
    say("raised " + e.message);
  }
};

const begin = (on, graph, modes, resumable) => {
  ids = [];
  hear(
    runs.stream(on, graph, {
      input: { messages: [{ id: "question", role: "user", content: "Go." }] },
      streamMode: modes.split(","),
      streamResumable: resumable === "true",
      onRunCreated: (created) => ({ run_id: run } = created),
    }),
  );
};

const commands = {
  stream: async (...how) => {
    ({ thread_id: thread } = await threads.create());
    begin(thread, ...how);
  },
  alone: (...how) => begin(null, ...how),
  join: () => void hear(runs.joinStream(thread, run, { lastEventId: last })),
  attach: (...names) => {
    [thread, run] = names;
    hear(runs.joinStream(thread, run, { lastEventId: "-1" }));
  },
  cancel: (action) => runs.cancel(thread, run, false, action),
  status: async () => say((await runs.get(thread, run)).status),
  run: () => say(thread + " " + run),
};
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...args] = line.split(" ");
  await commands[command](...args);
}
