import assert from "node:assert/strict";
import { test } from "node:test";
import { Lines } from "../web/lines.js";
import { Viewer } from "../web/viewer.js";
import { chat } from "../web/wire.js";
import { frame, settle, Stream, text, World } from "./world.js";

const RUN = "run_0a1b";

function viewer() {
  const world = new World();
  const seen = { over: [], opened: [] };
  const on = {
    changed: () => {},
    opened: (v, line, response) => seen.opened.push([line.n, line.kind, line.cursor, Boolean(response)]),
    over: (v, why) => seen.over.push(why),
  };
  return { world, seen, v: new Viewer(new Lines(), on, world) };
}

async function posted({ world, v }, headers = {}) {
  v.post(chat("hello", "conv-1", "key-1"));
  const request = world.request("POST", "/v1/chat/completions");
  request.stream = new Stream({ "X-Run-Id": RUN, "X-Conversation-Id": "conv-1", ...headers });
  request.resolve(request.stream.response);
  await settle();
  return request.stream;
}

test("viewer: a POST tells its run and gives its frames", async () => {
  const t = viewer();
  const stream = await posted(t);
  await stream.push(frame(RUN, 1, "Hel") + frame(RUN, 2, "lo"));
  const { v } = t;
  assert.deepEqual([v.run, v.conversation, v.state, v.phase, v.replayed], [RUN, "conv-1", "running", "live", false]);
  assert.deepEqual([v.answer.text, v.ledger.last, v.ledger.frames], ["Hello", 2, 2]);
});

test("viewer: the proper end of a POST is the end of the answer", async () => {
  const t = viewer();
  const stream = await posted(t);
  await stream.push(frame(RUN, 1, "x") + `id: ${RUN}.2\ndata: [DONE]\n\n`);
  await stream.end();
  assert.deepEqual([t.v.phase, t.v.complete, t.v.answer.done], ["over", true, true]);
  assert.deepEqual(t.seen.over, ["end"]);
});

test("viewer: a broken POST is not", async () => {
  const t = viewer();
  const stream = await posted(t);
  await stream.push(frame(RUN, 1, "x"));
  await stream.break();
  assert.deepEqual([t.v.phase, t.v.complete], ["lost", false]);
  assert.deepEqual(t.seen.over, ["network"]);
});

test("viewer: keepalives are counted where they fell", async () => {
  const t = viewer();
  const stream = await posted(t);
  await stream.push(frame(RUN, 1, "x"));
  t.world.now += 15_000;
  await stream.push(": keepalive\n");
  assert.deepEqual(t.v.pulses, [{ t: t.world.now, seq: 1, connection: 1 }]);
});

test("viewer: a cut ends the connection and reports nothing more", async () => {
  const t = viewer();
  const stream = await posted(t);
  await stream.push(frame(RUN, 1, "x"));
  t.v.cut();
  await settle();
  assert.deepEqual([t.v.phase, t.v.complete], ["cut", false]);
  assert.deepEqual(t.seen.over, []);
  assert.deepEqual(t.v.lines.all.map((l) => [l.ended, l.to]), [["cut", 1]]);
  assert.ok(t.world.request("POST", "/v1/chat/completions").init.signal.aborted);
});

test("viewer: an EventSource resumes after the last frame seen", async () => {
  const t = viewer();
  await (await posted(t)).push(frame(RUN, 1, "a") + frame(RUN, 2, "b"));
  t.v.cut();
  t.v.resume("EventSource");
  const [source] = t.world.sources;
  assert.equal(source.url, `/_runs/${RUN}/events?after=${RUN}.2`);
  source.open();
  source.emit("message", text("c"), `${RUN}.3`);
  const { v } = t;
  assert.deepEqual([v.answer.text, v.reconnects, v.ledger.duplicates, v.ledger.gaps], ["abc", 1, 0, 0]);
  assert.deepEqual(v.answer.marks, [{ at: 2, seam: { seq: 3, connection: 2 } }]);
  assert.deepEqual(v.ledger.tape, [{ connection: 1, from: 1, to: 2 }, { connection: 2, from: 3, to: 3 }]);
});

test("viewer: a frame that comes again is counted and not shown", async () => {
  const t = viewer();
  const stream = await posted(t);
  await stream.push(frame(RUN, 1, "a") + frame(RUN, 1, "a") + frame(RUN, 2, "b"));
  assert.deepEqual([t.v.answer.text, t.v.ledger.duplicates, t.v.lines.all[0].frames], ["ab", 1, 3]);
});

test("viewer: what has no cursor of ours is no frame", async () => {
  const t = viewer();
  const stream = await posted(t);
  await stream.push(`data: ${text("x")}\n\nid: 7\ndata: ${text("y")}\n\n`);
  assert.deepEqual([t.v.answer.text, t.v.ledger.frames, t.v.phase], ["", 0, "live"]);
});

test("viewer: fetch resumes with Last-Event-ID", async () => {
  const t = viewer();
  await (await posted(t)).push(frame(RUN, 1, "a"));
  t.v.cut();
  t.v.resume("fetch");
  const request = t.world.request("GET", `/_runs/${RUN}/events`);
  assert.equal(request.init.headers["Last-Event-ID"], `${RUN}.1`);
  const stream = new Stream();
  request.resolve(stream.response);
  await stream.push(frame(RUN, 2, "b"));
  assert.deepEqual([t.v.answer.text, t.v.phase], ["ab", "live"]);
  assert.deepEqual(t.seen.opened.at(-1), [2, "fetch", `${RUN}.1`, true]);
});

test("viewer: a fetch that ends without run.end was interrupted", async () => {
  const t = viewer();
  await posted(t);
  t.v.cut();
  t.v.resume("fetch");
  const stream = new Stream();
  t.world.request("GET", `/_runs/${RUN}/events`).resolve(stream.response);
  await stream.end();
  assert.equal(t.v.complete, false);
  assert.deepEqual(t.seen.over, ["end"]);
});

test("viewer: a browser that reconnects by itself is another connection with Last-Event-ID", async () => {
  const t = viewer();
  t.v.run = RUN;
  t.v.resume("EventSource");
  const [source] = t.world.sources;
  source.open();
  source.emit("message", text("a"), `${RUN}.1`);
  source.lose();
  assert.equal(t.v.phase, "lost");
  source.open();
  source.emit("message", text("b"), `${RUN}.2`);
  assert.deepEqual([t.v.answer.text, t.v.reconnects, t.world.sources.length], ["ab", 1, 1]);
  assert.deepEqual(t.seen.opened, [[1, "EventSource", "", false], [2, "EventSource", `${RUN}.1`, false]]);
});

test("viewer: run.end ends the run, and 204 stops the EventSource", async () => {
  const t = viewer();
  t.v.run = RUN;
  t.v.resume("EventSource");
  const [source] = t.world.sources;
  source.open();
  source.emit("message", text("a"), `${RUN}.1`);
  source.emit("run.state", JSON.stringify({ state: "cancelling" }), `${RUN}.1`);
  assert.equal(t.v.state, "cancelling");
  source.emit("run.end", JSON.stringify({ run_id: RUN, state: "cancelled", final_seq: 2 }), `${RUN}.2`);
  assert.deepEqual([t.v.state, t.v.complete, t.v.stopped, t.v.ledger.last], ["cancelled", true, false, 2]);
  source.lose(); // the body ended
  assert.equal(t.v.phase, "over");
  source.stop(); // the browser came back and got 204
  assert.deepEqual([t.v.stopped, t.v.phase, t.v.ledger.duplicates], [true, "over", 0]);
  assert.equal(t.v.lines.all[0].ended, "end");
});

test("viewer: an EventSource that is refused before the end has not been stopped", async () => {
  const t = viewer();
  t.v.attach("/_runs/active/events?conversation_id=c");
  t.world.sources[0].stop();
  assert.deepEqual([t.v.stopped, t.v.complete], [false, false]);
  assert.deepEqual(t.seen.over, ["closed"]);
});

test("viewer: expired frames end the reading, trimmed ones do not", () => {
  for (const [reason, complete] of [["retention", true], ["lost", true], ["trimmed", false]]) {
    const t = viewer();
    t.v.attach("/_runs/active/events?conversation_id=c");
    const [source] = t.world.sources;
    source.open();
    source.emit("stream_expired", JSON.stringify({ run_id: RUN, reason, state: "completed" }), `${RUN}.9`);
    assert.deepEqual([t.v.complete, t.v.expired.reason, t.v.run, t.v.ledger.frames], [complete, reason, RUN, 0], reason);
  }
});

test("viewer: whatever is no stream is a refusal", async () => {
  for (const response of [new Response("{}", { status: 409 }), new Response("hello", { status: 200 }), new Response(null, { status: 204 })]) {
    const t = viewer();
    t.v.post(chat("hello", "conv-1", "key-1"));
    t.world.requests[0].resolve(response);
    await settle();
    assert.deepEqual([t.v.phase, t.seen.over], ["refused", ["refused"]]);
  }
});

test("viewer: a replay in one instant is one stroke of the picture", async () => {
  const t = viewer();
  const stream = await posted(t);
  for (let seq = 1; seq <= 50; seq++) await stream.push(frame(RUN, seq, "x"));
  assert.deepEqual(t.v.points.map((p) => p.seq), [1, 50]);
  t.world.now += 40;
  await stream.push(frame(RUN, 51, "x"));
  t.world.now += 60;
  await stream.push(frame(RUN, 52, "x"));
  assert.deepEqual(t.v.points.map((p) => p.seq), [1, 51, 52]);
});

test("viewer: survives a reload as JSON", async () => {
  const t = viewer();
  await (await posted(t)).push(frame(RUN, 1, "a"));
  const saved = JSON.parse(JSON.stringify(t.v));
  const again = new Viewer(new Lines(JSON.parse(JSON.stringify(t.v.lines))), t.v.on, t.world).restore(saved);
  again.resume("EventSource");
  t.world.sources[0].open();
  t.world.sources[0].emit("message", text("b"), `${RUN}.2`);
  assert.deepEqual([again.answer.text, again.ledger.frames, again.reconnects, again.run], ["ab", 2, 1, RUN]);
});
