// Joins the page to a session: buttons in, drawings out.

import { address, hashOf, lastConversation, load, save } from "./keep.js";
import { Session } from "./session.js";
import { render, renderRuns } from "./view.js";
import { fresh, isTerminal } from "./wire.js";

const $ = (id) => document.getElementById(id);

const WATCH_AGENT = 500; // ms, while there is something to watch
const LOOK_AROUND = 2500; // ms, for a run that another device starts
const SAVE = 1000; // ms
const PAINT = 70; // ms between two paintings: faster than anyone reads

let session;
let painting = 0;
let savedAt = 0;
/** Whether the newest text is kept in sight: until somebody scrolls away. */
let following = true;

/** Paints soon, and many changes at once. */
function changed() {
  painting ||= setTimeout(() => requestAnimationFrame(paint), PAINT);
}

function paint() {
  painting = 0;
  render(session, Date.now());
  if (following && !session.main.complete) window.scrollBy(0, Math.max(0, beyond()));
  if (Date.now() - savedAt > SAVE) keep();
}

/** How far the newest text lies below its place, in pixels: a notice that may
 * follow it must fit above the dock. */
function beyond() {
  const end = $("answer").getBoundingClientRect().bottom;
  return end + 90 - document.querySelector(".dock").getBoundingClientRect().top;
}

function keep() {
  savedAt = Date.now();
  if (session.main.run || session.request) save(session.conversation, session);
}

/** Opens the conversation that the address names, else the last one. */
function open() {
  session?.close();
  const { conversation, run } = address(location.hash);
  const name = conversation ?? lastConversation() ?? fresh("demo-");
  if (!conversation) history.replaceState(null, "", hashOf(name));
  $("second").href = hashOf(name);
  session = new Session(name, changed);
  window.demo = session; // for tests and for curious people
  following = true;
  const saved = run ? null : load(name);
  if (saved) session.restore(saved);
  else if (run) session.follow(run);
  else session.catchUp();
  session.watchAgent();
  changed();
}

function ask(prompt) {
  session.ask(prompt);
  $("prompt").value = "";
  keep();
}

async function showRecord() {
  await session.refresh();
  $("record-json").textContent = JSON.stringify(session.record, null, 2);
}

async function showRuns() {
  const { body } = await session.gateway.runs({ limit: 10 });
  renderRuns(body?.runs ?? [], (run) => {
    location.hash = `${hashOf(run.conversation_id)}&run=${run.run_id}`;
  });
}

async function copyLink() {
  const link = location.origin + location.pathname + hashOf(session.conversation);
  // Without https there is no clipboard to write to.
  if (!navigator.clipboard) return prompt("The link of this conversation", link);
  await navigator.clipboard.writeText(link);
  $("copy").textContent = "Copied";
  setTimeout(() => ($("copy").textContent = "Copy link"), 1500);
}

const actions = {
  kill: () => session.kill(Number($("gap").value) * 1000),
  back: () => session.resume(),
  reload: () => location.reload(),
  retry: () => session.retry(),
  stop: () => session.stop(),
  "record-get": showRecord,
  fresh: () => (location.hash = hashOf(fresh("demo-"))),
  copy: copyLink,
};

for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", action);

$("home").addEventListener("click", (event) => {
  event.preventDefault();
  actions.fresh();
});

$("how").addEventListener("change", () => (session.how = $("how").value));

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask($("prompt").value);
});

$("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  $("ask").requestSubmit();
});

$("suggestions").addEventListener("click", (event) => {
  const prompt = event.target.closest("button")?.dataset.prompt;
  if (prompt) ask(prompt);
});

$("reasoning").firstElementChild.addEventListener("click", () => ($("reasoning").dataset.touched = "yes"));
$("record").addEventListener("toggle", () => $("record").open && showRecord());
$("runs").addEventListener("toggle", () => $("runs").open && showRuns());

window.addEventListener("hashchange", open);
// A browser that leaves a page breaks its connections first. That is a reload,
// not a refusal, so the session stops listening before.
window.addEventListener("beforeunload", () => session.leave());
window.addEventListener("pagehide", keep);
window.addEventListener("pageshow", (event) => event.persisted && open());
window.addEventListener("resize", changed);
window.addEventListener("scroll", () => (following = Math.abs(beyond()) < 150));
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);

setInterval(() => {
  const { main, agent } = session;
  const over = main.complete && isTerminal(main.state) && agent.call?.state !== "running";
  const watching = main.answer.id && !over && main.phase !== "gone";
  if (watching) session.watchAgent();
}, WATCH_AGENT);

setInterval(() => document.visibilityState === "visible" && session.lookAround(), LOOK_AROUND);

open();
