// The picture: time to the right, frame numbers up. Each connection draws in
// its own colour, the agent itself in grey. A cut is where a colour ends while
// the grey line climbs on; coming back is the cliff where the next one joins it.

import { COLOURS } from "./lines.js";

const PAD = { left: 38, right: 12, top: 14, bottom: 22 };

/**
 * @param {HTMLCanvasElement} canvas
 * @param {object} scene
 * @param {{t: number, seq: number, connection: number}[][]} scene.curves one per viewer
 * @param {{t: number, seq: number, connection: number}[]} scene.pulses keepalives
 * @param {{t: number, frames: number}[]} scene.agent
 * @param {{from: number, to: number, missed: number}[]} scene.away when the page did not read
 * @param {number} scene.start @param {number} scene.now in ms
 */
export function draw(canvas, scene) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  if (canvas.width !== width * scale || canvas.height !== height * scale) {
    canvas.width = width * scale;
    canvas.height = height * scale;
  }
  const g = canvas.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  const view = project(scene, width, height);
  const ink = palette(canvas);
  axes(g, view, ink);
  if (scene.curves.every((c) => c.length === 0)) return invite(g, view, ink);
  for (const gap of scene.away) shade(g, view, ink, gap);
  line(g, scene.agent.map((p) => [view.x(p.t), view.y(p.frames)]), ink.agent, 5);
  for (const curve of scene.curves) for (const part of parts(curve)) stroke(g, view, ink, part);
  for (const pulse of scene.pulses) heartbeat(g, view, ink, pulse);
}

/** Where a moment and a frame number lie on the canvas. */
export function project({ curves, agent, start, now }, width, height) {
  const seqs = curves.flatMap((c) => (c.length ? [c.at(-1).seq] : []));
  const top = Math.max(20, ...seqs, agent.at(-1)?.frames ?? 0) * 1.06;
  const span = Math.max(5000, now - start) * 1.02;
  const w = width - PAD.left - PAD.right;
  const h = height - PAD.top - PAD.bottom;
  return {
    width, height, top, span,
    x: (t) => PAD.left + (Math.max(0, t - start) / span) * w,
    y: (seq) => PAD.top + h - (seq / top) * h,
  };
}

/** Cuts a curve where another connection takes over. */
export function parts(curve) {
  const out = [];
  for (const p of curve) {
    if (out.at(-1)?.at(-1).connection === p.connection) out.at(-1).push(p);
    else out.push([p]);
  }
  return out;
}

/** A round step so that about n of them fill the range. */
export function step(range, n) {
  const raw = range / n;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
}

function palette(canvas) {
  const css = getComputedStyle(canvas);
  const of = (name) => css.getPropertyValue(name).trim();
  return {
    grid: of("--line"), text: of("--muted"), agent: of("--agent"), shade: of("--shade"), paper: of("--card"), font: css.fontFamily,
    connection: (n) => of(`--c${(n - 1) % COLOURS}`),
  };
}

function axes(g, view, ink) {
  g.font = `11px ${ink.font}`;
  g.fillStyle = ink.text;
  g.strokeStyle = ink.grid;
  g.lineWidth = 1;
  g.textAlign = "right";
  g.textBaseline = "middle";
  const up = step(view.top, 4);
  for (let seq = 0; seq <= view.top; seq += up) {
    const y = Math.round(view.y(seq)) + 0.5;
    path(g, [[PAD.left, y], [view.width - PAD.right, y]]);
    g.fillText(String(seq), PAD.left - 6, y);
  }
  g.textAlign = "center";
  g.textBaseline = "top";
  const right = step(view.span / 1000, Math.max(2, Math.floor(view.width / 90)));
  for (let s = 0; s * 1000 <= view.span; s += right) {
    g.fillText(`${s} s`, Math.min(PAD.left + (s * 1000 / view.span) * (view.width - PAD.left - PAD.right), view.width - 16), view.height - PAD.bottom + 7);
  }
}

function invite(g, view, ink) {
  g.fillStyle = ink.text;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.font = `13px ${ink.font}`;
  g.fillText("Frame numbers over time, one colour per connection", view.width / 2, view.height / 2 - 10);
}

// A band for the time in which the page was not reading.
function shade(g, view, ink, { from, to, missed }) {
  const [x, right] = [view.x(from), view.x(to)];
  g.fillStyle = ink.shade;
  g.fillRect(x, PAD.top, right - x, view.height - PAD.top - PAD.bottom);
  if (right - x < 56) return;
  g.fillStyle = ink.text;
  g.textAlign = "center";
  g.textBaseline = "top";
  g.fillText("not reading", (x + right) / 2, PAD.top + 4);
  if (missed > 0) g.fillText(`${missed} frames kept`, (x + right) / 2, PAD.top + 18);
}

function stroke(g, view, ink, part) {
  const colour = ink.connection(part[0].connection);
  line(g, part.map((p) => [view.x(p.t), view.y(p.seq)]), colour, 2.5);
  dot(g, view, part[0], 4);
  g.fillStyle = colour;
  g.fill();
}

// A keepalive is a ring on the flat line of a silence.
function heartbeat(g, view, ink, pulse) {
  dot(g, view, pulse, 4.5);
  g.fillStyle = ink.paper;
  g.fill();
  g.strokeStyle = ink.connection(pulse.connection);
  g.lineWidth = 2;
  g.stroke();
}

function dot(g, view, { t, seq }, radius) {
  g.beginPath();
  g.arc(view.x(t), view.y(seq), radius, 0, 2 * Math.PI);
}

function line(g, points, colour, width) {
  g.strokeStyle = colour;
  g.lineWidth = width;
  g.lineJoin = g.lineCap = "round";
  path(g, points);
}

function path(g, points) {
  g.beginPath();
  points.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
  g.stroke();
}
