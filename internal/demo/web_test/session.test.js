import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../web/session.js";
import { frame, json, settle, Stream, text, World } from "./world.js";

const RUN = "run_0a1b";
const CHAT = "/v1/chat/completions";

function session() {
  const world = new World();
  world.record = { run_id: RUN, state: "running", frames: { last_seq: 0, final_seq: null }, created_at: new Date(world.now - 9000).toISOString() };
  world.answers[`GET /_runs/${RUN}`] = () => json(world.record);
  return { world, s: new Session("conv-1", () => {}, world) };
}

/** Answers the newest POST with a stream. */
async function answer(world, headers = {}) {
  const stream = new Stream({ "X-Run-Id": RUN, ...headers });
  const request = world.request("POST", CHAT);
  request.stream = stream;
  request.resolve(stream.response);
  await settle();
  return stream;
}

async function asked() {
  const t = session();
  t.s.ask("hello");
  t.stream = await answer(t.world);
  await t.stream.push(frame(RUN, 1, "a") + frame(RUN, 2, "b"));
  return t;
}

const key = (request) => request.init.headers["Idempotency-Key"];

test("session: a question names its conversation and has a key of its own", async () => {
  const { world, s } = session();
  s.ask("one");
  s.ask("two");
  const [one, two] = world.requests;
  assert.equal(one.init.headers["X-Conversation-Id"], "conv-1");
  assert.equal(JSON.parse(two.init.body).messages[0].content, "two");
  assert.match(key(one), /^demo-[0-9a-f]{20}$/);
  assert.notEqual(key(one), key(two));
});

test("session: a killed connection comes back after its time", async () => {
  const { world, s } = await asked();
  s.kill(5000);
  assert.deepEqual([s.main.phase, s.busy, s.backAt], ["cut", true, world.now + 5000]);
  await world.pass(4999);
  assert.equal(world.sources.length, 0);
  await world.pass(1);
  assert.equal(world.sources[0].url, `/_runs/${RUN}/events?after=${RUN}.2`);
  world.sources[0].open();
  assert.deepEqual([s.main.phase, s.backAt], ["live", 0]);
});

test("session: a killed connection can stay away until it is told", async () => {
  const { world, s } = await asked();
  s.kill(0);
  await world.pass(3_600_000);
  assert.equal(world.sources.length, 0);
  s.resume();
  assert.equal(world.sources.length, 1);
});

test("session: coming back by hand is coming back once", async () => {
  const { world, s } = await asked();
  s.kill(5000);
  s.resume();
  await world.pass(10_000);
  assert.equal(world.sources.length, 1);
});

test("session: a retry has the same key and the same bytes, and is another reader", async () => {
  const { world, s } = await asked();
  s.retry();
  const [first, second] = world.requests.filter((r) => r.url === CHAT);
  assert.equal(key(second), key(first));
  assert.equal(second.init.body, first.init.body);
  const stream = await answer(world, { "Idempotent-Replayed": "true" });
  await stream.push(frame(RUN, 1, "a") + frame(RUN, 2, "b"));
  const [retry] = s.retries;
  assert.deepEqual([retry.replayed, retry.run, retry.answer.text, retry.ledger.frames], [true, RUN, "ab", 2]);
  assert.deepEqual([s.main.ledger.frames, s.main.ledger.duplicates, s.main.reconnects], [2, 0, 0]);
  assert.deepEqual(s.lines.all.map((l) => [l.n, l.role]), [[1, "answer"], [2, "retry 1"]]);
});

test("session: a broken connection comes back by itself", async () => {
  const { world, s, stream } = await asked();
  await stream.break();
  assert.equal(s.main.phase, "lost");
  await world.pass(500);
  assert.equal(world.sources[0].url, `/_runs/${RUN}/events?after=${RUN}.2`);
});

test("session: a start that broke before its headers is sent again with the same key", async () => {
  const { world, s } = session();
  s.ask("hello");
  world.request("POST", CHAT).reject(new TypeError("network"));
  await settle();
  await world.pass(500);
  const [first, second] = world.requests.filter((r) => r.url === CHAT);
  assert.equal(key(second), key(first));
});

test("session: it waits longer between attempts that fail", async () => {
  const { world, s } = session();
  s.ask("hello");
  const waits = [];
  for (let i = 0; i < 6; i++) {
    world.request("POST", CHAT).reject(new TypeError("network"));
    await settle();
    waits.push(s.backAt - world.now);
    await world.pass(s.backAt - world.now);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 4000, 4000]);
});

test("session: a refused start shows its problem and is forgotten", async () => {
  const { world, s } = session();
  s.ask("hello");
  world.request("POST", CHAT).resolve(json({ status: 409, code: "run_in_flight" }, 409));
  await settle();
  assert.deepEqual([s.main.phase, s.main.problem.code, s.request, s.busy], ["refused", "run_in_flight", null, false]);
  await world.pass(60_000);
  assert.equal(world.requests.length, 1);
});

test("session: an unknown run is gone and not asked for again", async () => {
  const { world, s } = await asked();
  world.answers[`GET /_runs/${RUN}`] = () => json({ code: "run_not_found" }, 404);
  s.kill(1000);
  await world.pass(1000);
  world.sources[0].stop();
  await settle();
  assert.deepEqual([s.main.phase, s.busy], ["gone", false]);
  await world.pass(60_000);
  assert.equal(world.sources.length, 1);
});

test("session: a reader told 204 at the terminal frame has everything", async () => {
  const { world, s } = await asked();
  await s.main.cut();
  s.resume();
  world.record = { ...world.record, state: "failed", frames: { final_seq: 2 } };
  world.sources[0].stop();
  await settle();
  assert.deepEqual([s.main.state, s.main.complete], ["failed", true]);
  await world.pass(60_000);
  assert.equal(world.sources.length, 1);
});

test("session: a run that ended while nobody read is still read to its end", async () => {
  const { world, s } = await asked();
  world.record = { ...world.record, state: "completed", frames: { final_seq: 9 } };
  s.kill(1000);
  await s.refresh();
  assert.deepEqual([s.main.state, s.main.complete, s.busy], ["completed", false, false]);
  await world.pass(1000);
  assert.equal(world.sources.length, 1);
});

test("session: a Stop shows its receipt, and again when it is settled", async () => {
  const { world, s } = await asked();
  world.answers[`POST /_runs/${RUN}/cancel`] = () => json({ state: "cancelling", cancel: { outcome: "cancellation_pending" } }, 202);
  world.record = { ...world.record, state: "cancelling", cancel: { outcome: "cancellation_pending" } };
  await s.stop();
  assert.deepEqual([s.receipt.status, s.receipt.body.cancel.outcome, s.main.state], [202, "cancellation_pending", "cancelling"]);
  await world.pass(500);
  assert.equal(s.receipt.body.cancel.outcome, "cancellation_pending");
  world.record = { ...world.record, state: "cancelled", cancel: { outcome: "cancelled_after_effect", upstream: "unconfirmed" } };
  await world.pass(500);
  assert.deepEqual([s.receipt.status, s.receipt.body.cancel.upstream, s.main.state], [202, "unconfirmed", "cancelled"]);
  assert.equal(world.timers.length, 0);
});

test("session: a Stop that is final at once is not looked up again", async () => {
  const { world, s } = await asked();
  world.answers[`POST /_runs/${RUN}/cancel`] = () => json({ state: "cancelled", cancel: { outcome: "cancelled_after_effect" } });
  await s.stop();
  assert.deepEqual([s.receipt.status, world.timers.length], [200, 0]);
});

test("session: the agent's own count belongs to the call it is about", async () => {
  const { world, s } = await asked();
  world.answers["GET /agent/calls"] = () => json({ total: 3, calls: [
    { id: "chatcmpl-2", state: "running", frames: 99 }, { id: "chatcmpl-1", state: "running", frames: 4 }] });
  await s.watchAgent();
  assert.deepEqual([s.agent.total, s.agent.call.frames, s.agent.points], [3, 4, [{ t: world.now, frames: 4 }]]);
});

test("session: another device attaches to what is active and shows its age", async () => {
  const { world, s } = session();
  world.answers["GET /_runs/active"] = () => json({ status: "running", run_id: RUN });
  await s.lookAround();
  assert.equal(world.sources[0].url, "/_runs/active/events?conversation_id=conv-1");
  world.sources[0].open();
  world.sources[0].emit("message", text("a"), `${RUN}.1`);
  await s.refresh();
  assert.deepEqual([s.main.run, s.main.answer.text, s.start], [RUN, "a", world.now - 9000]);
  await s.lookAround();
  assert.equal(world.sources.length, 1);
});

test("session: nothing active is nothing to attach to", async () => {
  const { world, s } = session();
  world.answers["GET /_runs/active"] = () => json({ status: "idle" });
  await s.lookAround();
  assert.deepEqual([world.sources.length, s.main.phase], [0, "idle"]);
});

test("session: a device that comes after the end reads the last run", async () => {
  const { world, s } = session();
  world.answers["GET /_runs/active"] = () => json({ status: "idle" });
  world.answers["GET /_runs"] = ({ url }) => json({ runs: url.includes("conversation_id=conv-1") ? [{ run_id: RUN }] : [] });
  await s.catchUp();
  assert.equal(world.sources[0].url, `/_runs/${RUN}/events`);
  world.sources[0].open();
  world.sources[0].emit("message", text("a"), `${RUN}.1`);
  world.sources[0].emit("run.end", JSON.stringify({ state: "completed" }), `${RUN}.2`);
  assert.deepEqual([s.main.answer.text, s.main.state, s.busy], ["a", "completed", false]);
});

test("session: a new conversation has nothing to catch up with", async () => {
  const { world, s } = session();
  world.answers["GET /_runs/active"] = () => json({ status: "idle" });
  world.answers["GET /_runs"] = () => json({ runs: [] });
  await s.catchUp();
  assert.deepEqual([world.sources.length, s.main.phase], [0, "idle"]);
});

test("session: a reload goes on after the last frame, with the text before it", async () => {
  const t = await asked();
  t.s.leave();
  const saved = JSON.parse(JSON.stringify(t.s));
  assert.deepEqual(saved.lines.map((l) => [l.ended, l.to]), [["reload", 2]], "what breaks while the page goes is no news");
  const world = t.world;
  const s = new Session("conv-1", () => {}, world).restore(saved);
  assert.equal(world.sources[0].url, `/_runs/${RUN}/events?after=${RUN}.2`);
  world.sources[0].open();
  world.sources[0].emit("message", text("c"), `${RUN}.3`);
  assert.deepEqual([s.main.answer.text, s.main.reconnects, s.main.ledger.frames, s.prompt], ["abc", 1, 3, "hello"]);
  assert.deepEqual(s.lines.all.map((l) => [l.n, l.ended]), [[1, "reload"], [2, ""]]);
  assert.equal(key(s.request ? { init: s.request } : null), key(world.request("POST", CHAT)));
});

test("session: a reload before the headers sends the same start again", async () => {
  const { world, s } = session();
  s.ask("hello");
  const saved = JSON.parse(JSON.stringify(s));
  s.close();
  new Session("conv-1", () => {}, world).restore(saved);
  const [first, second] = world.requests;
  assert.equal(key(second), key(first));
  assert.equal(second.init.body, first.init.body);
});

test("session: a reload after the end attaches to nothing", async () => {
  const { world, s, stream } = await asked();
  world.record = { ...world.record, state: "completed", frames: { final_seq: 3 } };
  await stream.end();
  const again = new Session("conv-1", () => {}, world).restore(JSON.parse(JSON.stringify(s)));
  await settle();
  assert.deepEqual([again.main.phase, again.main.state, world.sources.length], ["over", "completed", 0]);
});

test("session: a closed session does nothing more", async () => {
  const { world, s } = await asked();
  s.kill(1000);
  s.close();
  await world.pass(5000);
  assert.deepEqual([world.sources.length, world.timers.length], [0, 0]);
});

test("session: the log names runs in short", async () => {
  const { s } = await asked();
  s.say("GET /_runs/run_0123456789abcdef/events?after=run_0123456789abcdef.7");
  assert.equal(s.log.at(-1).text, "GET /_runs/run_012345…/events?after=run_012345….7");
  for (let i = 0; i < 300; i++) s.say(String(i));
  assert.equal(s.log.length, 200);
});
