// Draws a session into the page. It reads and never changes it.

import { agentSays, ENDS, PHASES, REASONS, receiptLines, STATES } from "./explain.js";
import { colour } from "./lines.js";
import { draw } from "./picture.js";
import { isTerminal } from "./wire.js";

const REDRAW = 250; // ms

const $ = (id) => document.getElementById(id);

/** Sets what differs, so that selections and screen readers are left alone. */
function text(id, value) {
  const node = $(id);
  if (node.textContent !== String(value)) node.textContent = value;
}

function element(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}

/** Replaces the children of a node only when what they show has changed. */
function replace(id, key, make) {
  const node = $(id);
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.replaceChildren(...make());
}

export function render(session, now) {
  const { main } = session;
  publish(session);
  facts(session);
  counters(session);
  controls(session, now);
  turn(session);
  picture(session, now);
  strips(session);
  connections(session);
  receipt(session);
  retries(session);
  wire(session);
  document.title = main.run ? `${main.ledger.last} · ${main.state || "…"} · Caddy Agent Runs` : "Caddy Agent Runs · demo";
}

/** The state for tests and for style sheets. */
function publish({ main, retries, conversation }) {
  Object.assign(document.documentElement.dataset, {
    conversation, run: main.run, state: main.state, phase: main.phase, seq: main.ledger.last,
    frames: main.ledger.frames, duplicates: main.ledger.duplicates, gaps: main.ledger.gaps,
    reconnects: main.reconnects, keepalives: main.pulses.length, complete: main.complete,
    stopped: main.stopped, retries: retries.length,
  });
}

function facts({ main, record }) {
  text("seq", main.ledger.last);
  text("state", main.state || "none");
  $("state").dataset.state = main.state;
  const why = main.end?.state_reason ?? record?.state_reason;
  text("reason", isTerminal(main.state) && why ? REASONS[why] ?? why : STATES[main.state] ?? "");
  text("phase", PHASES[main.phase]);
  $("phase").dataset.phase = main.phase;
  text("stopped", main.stopped ? "204 stopped the EventSource" : "");
  text("run", main.run || "–");
  text("record-url", main.run ? `/_runs/${main.run.slice(0, 9)}…` : "/_runs/…");
}

function counters({ main, agent }) {
  text("frames", main.ledger.frames);
  text("duplicates", main.ledger.duplicates);
  text("gaps", main.ledger.gaps);
  text("reconnects", main.reconnects);
  text("keepalives", main.pulses.length);
  text("calls", agent.total);
}

function controls(session, now) {
  const { main, busy, request, agent, backAt } = session;
  const away = main.phase === "cut" || main.phase === "lost";
  $("send").disabled = busy;
  $("kill").disabled = main.phase !== "live";
  $("stop").disabled = !busy || !main.run || main.state === "cancelling";
  $("retry").disabled = !request;
  $("record-get").disabled = !main.run;
  $("away").hidden = !away;
  if (!away) return;
  const missed = agent.call ? Math.max(0, agent.call.frames - main.ledger.last) : 0;
  const seconds = Math.max(0, Math.ceil((backAt - now) / 1000));
  text("away-text", [
    main.phase === "cut" ? "This page is not reading." : "The connection is lost.",
    missed ? `${missed} frames are waiting in the gateway.` : "",
    backAt ? `Back in ${seconds} s.` : "",
  ].join(" "));
}

function turn(session) {
  const { main, prompt } = session;
  const shown = main.phase !== "idle";
  $("welcome").hidden = shown;
  $("turn").hidden = !shown;
  $("notice").classList.toggle("mild", Boolean(main.expired) && main.state === "completed");
  if (!shown) return;
  text("asked", prompt || "(asked on another device)");
  const reasoning = $("reasoning");
  reasoning.hidden = !main.answer.reasoning;
  // Shown as long as there is nothing else to see, unless somebody decided.
  if (!reasoning.dataset.touched) reasoning.open = main.answer.text === "";
  text("reasoning-text", main.answer.reasoning);
  if (main.expired && session.record?.snapshot) snapshot(session.record.snapshot);
  else answer(main);
  notice(session);
}

// The answer is rebuilt when a seam or a tool call is new, and else only grows.
function answer({ answer, lines, complete, phase }) {
  const node = $("answer");
  const { marks } = answer;
  const key = `${answer.id}/${marks.length}`;
  if (node.dataset.key !== key) rebuild(node, key, answer, lines.all.find((l) => l.role === "answer")?.n ?? 1);
  for (const [i, tool] of answer.tools.entries()) node.querySelector(`[data-tool="${i}"] code`).textContent = tool.arguments;
  const tail = answer.text.slice(marks.at(-1)?.at ?? 0);
  if (node.lastElementChild.textContent !== tail) node.lastElementChild.textContent = tail;
  node.dataset.seams = marks.filter((m) => m.seam).length;
  node.classList.toggle("writing", !complete && phase !== "gone");
}

// Frames that are gone cannot be shown one by one; the snapshot is what stays.
function snapshot(snapshot) {
  const node = $("answer");
  node.dataset.key = "snapshot";
  if (node.textContent !== snapshot.text) node.textContent = snapshot.text;
  node.classList.remove("writing");
}

function rebuild(node, key, { text, marks, tools }, line) {
  node.dataset.key = key;
  node.replaceChildren();
  let from = 0;
  for (const { at, seam, tool } of marks) {
    if (at > from) node.append(said(text.slice(from, at), line));
    from = at;
    node.append(seam ? mark(seam) : toolCard(tools[tool], tool));
    line = seam?.connection ?? line;
  }
  node.append(said(text.slice(from), line));
}

function said(textContent, line) {
  return element("span", { className: `said ${colour(line)}`, textContent });
}

// The label stands in a pseudo element: the text of the answer stays clean.
function mark({ seq, connection }) {
  const node = element("i", { className: `seam ${colour(connection)}`, title: `connection ${connection} goes on at frame ${seq}` });
  node.dataset.label = seq;
  return node;
}

function toolCard({ name }, i) {
  const node = element("div", { className: "tool" }, element("b", { textContent: name }), element("code"));
  node.dataset.tool = i;
  return node;
}

function notice(session) {
  const said = trouble(session);
  $("notice").hidden = !said;
  text("notice", said);
}

function trouble({ main, record }) {
  const { problem, expired, answer, phase, state, complete } = main;
  if (problem) return `${problem.status ?? ""} ${problem.code ?? ""}: ${problem.title ?? ""}. ${problem.detail ?? ""}`;
  if (phase === "gone") return "The gateway does not know this run any more.";
  const error = (answer.error ?? record?.snapshot?.error)?.message;
  if (expired) return `The frames are gone (${expired.reason}); this is the snapshot. ${error ?? ""}`;
  if (error) return error;
  return complete && isTerminal(state) && state !== "completed" ? `This answer is not whole: ${state}.` : "";
}

// A picture of thousands of points is drawn a few times a second, and at once
// when a connection comes or goes.
function picture(session, now) {
  const canvas = $("picture");
  const { main, retries, lines } = session;
  const key = [main.run, main.complete, ...[main, ...retries].map((r) => r.phase), lines.all.length, canvas.clientWidth].join();
  if (key === canvas.dataset.key && now - canvas.dataset.at < REDRAW) return;
  Object.assign(canvas.dataset, { key, at: now });
  draw(canvas, scene(session, now));
}

function scene({ main, retries, agent, lines, start }, now) {
  const readers = [main, ...retries];
  const last = Math.max(start, agent.points.at(-1)?.t ?? 0, ...readers.map((r) => r.points.at(-1)?.t ?? 0));
  const over = (main.complete || main.phase === "gone") && readers.every((r) => r.phase !== "live");
  const end = over ? last : now;
  const away = lines.away("answer", end).filter((gap) => gap.next || !main.complete);
  return {
    curves: readers.map((r) => curve(r, end)),
    pulses: readers.flatMap((r) => r.pulses),
    agent: agent.points,
    away: away.map((gap) => ({ ...gap, missed: missed(gap, main, agent) })),
    start,
    now: end,
  };
}

// An open connection is drawn up to now, silence included.
function curve({ points, phase }, end) {
  return phase === "live" && points.length ? [...points, { ...points.at(-1), t: end }] : points;
}

// What waited: the first stroke of the connection that came back, or what the
// agent says while nobody has.
function missed({ after, next }, main, agent) {
  if (!next) return Math.max(0, (agent.call?.frames ?? 0) - after);
  const points = main.points.filter((p) => p.connection === next.n).slice(0, 2);
  return points.length ? points.at(-1).seq - after : 0;
}

function strips({ main, retries, agent }) {
  const whole = Math.max(1, agent.call?.frames ?? 0, main.ledger.last, ...retries.map((r) => r.ledger.last));
  const rows = [["you", main.ledger.tape], ...retries.map((r) => [r.role, r.ledger.tape])];
  const key = JSON.stringify([whole, rows]);
  replace("strips", key, () => rows.map(([name, tape]) =>
    element("div", { className: "strip" }, element("small", { textContent: name }), bar(tape, whole))));
  // On a phone the picture may be out of sight; a thin strip stays.
  replace("mini", key, () => [bar(main.ledger.tape, whole)]);
}

function bar(tape, whole) {
  const bar = element("span", { className: "bar" });
  for (const { connection, from, to } of tape) {
    const part = element("i", { className: colour(connection), title: `connection ${connection}: frames ${from} to ${to}` });
    part.style.width = `${((to - from + 1) / whole) * 100}%`;
    part.style.left = `${((from - 1) / whole) * 100}%`;
    bar.append(part);
  }
  return bar;
}

function connections({ lines, agent: { call } }) {
  const rows = lines.all.map((l) =>
    [colour(l.n), l.n, l.role === "answer" ? l.kind : `${l.kind} (${l.role})`, `${l.frames} frames from ${l.from}`, ENDS[l.ended]]);
  if (call) rows.unshift(["agent", "A", "the agent", call.id, agentSays(call)]);
  replace("lines", JSON.stringify(rows), () => rows.map(([className, n, kind, what, end]) =>
    element("li", { className }, element("b", { textContent: n }), kind,
      element("span", { textContent: what }), element("em", { textContent: end }))));
}

function receipt({ receipt, agent }) {
  $("receipt").hidden = !receipt;
  if (!receipt) return;
  const rows = receiptLines(receipt, agent.call);
  replace("receipt-facts", JSON.stringify(rows), () => rows.map(([name, value, meaning]) =>
    element("div", {}, element("dt", { textContent: name }),
      element("dd", {}, element("b", { textContent: value }), ` ${meaning}`))));
}

function retries({ retries, main }) {
  $("retries").hidden = retries.length === 0;
  const rows = retries.map((r) => [r.role, ...(r.problem ? refusal(r.problem) : comparison(r, main))]);
  replace("retry-list", JSON.stringify(rows), () => rows.map(([role, ...cells]) =>
    element("p", { className: "retry" }, element("b", { textContent: role }), ...cells.map((textContent) => element("span", { textContent })))));
}

function refusal({ status, code, title, detail }) {
  return [`${status} ${code ?? ""}`, detail ?? title];
}

function comparison({ run, replayed, ledger, answer, complete, phase }, main) {
  if (!run) return [PHASES[phase]];
  return [
    replayed ? "Idempotent-Replayed: true" : "a new answer",
    run === main.run ? "same run id ✓" : `another run, ${run}`,
    `${ledger.frames} frames, ${ledger.duplicates} duplicates, ${ledger.gaps} gaps`,
    !(complete && main.complete) ? PHASES[phase] : answer.text === main.answer.text ? "equal text ✓" : "DIFFERENT text",
  ];
}

function wire({ log, start }) {
  replace("log", `${log.length} ${log.at(-1)?.t}`, () => log.map(({ t, text, connection }) =>
    element("li", { className: connection ? colour(connection) : "" },
      element("small", { textContent: `${((t - start) / 1000).toFixed(1)} s` }), ` ${text}`)).reverse());
}

export function renderRuns(runs, go) {
  $("runs-list").replaceChildren(...runs.map((r) => {
    const button = element("button", { className: "quiet", onclick: () => go(r) },
      element("b", { className: "badge", textContent: r.state }),
      ` ${r.run_id.slice(0, 12)}… · ${r.frames?.last_seq ?? 0} frames · ${new Date(r.created_at).toLocaleTimeString()}`);
    button.firstChild.dataset.state = r.state;
    return element("li", {}, button);
  }));
}
