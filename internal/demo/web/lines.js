// The connections of the page, numbered in the order in which they opened. The
// number of a connection is its colour.

/** How many colours there are before they come round again. */
export const COLOURS = 8;

/** The class that carries the colour of connection n. */
export const colour = (n) => `c${(n - 1) % COLOURS}`;

/**
 * @typedef {object} Line
 * @property {number} n       1, 2, 3, ...
 * @property {string} role    answer, or which retry
 * @property {string} kind    POST | EventSource | fetch
 * @property {string} url
 * @property {string} cursor  the Last-Event-ID that it sent, if it sent one
 * @property {number} from    first frame number it wanted
 * @property {number} to      last frame number when it closed
 * @property {number} frames  how many it delivered
 * @property {string} ended   "" while open, else a key of ENDS
 * @property {number} openedAt
 * @property {number} closedAt  0 while open
 */

export class Lines {
  /** @param {Line[]} [saved] */
  constructor(saved = []) {
    /** @type {Line[]} */
    this.all = saved;
  }

  /** @returns {Line} */
  open({ role, kind, url, cursor, last, now }) {
    const n = (this.all.at(-1)?.n ?? 0) + 1;
    const line = { n, role, kind, url, cursor, from: last + 1, to: last, frames: 0, ended: "", openedAt: now, closedAt: 0 };
    this.all.push(line);
    return line;
  }

  close(line, why, last, now) {
    Object.assign(line, { ended: why, to: last, closedAt: now });
  }

  /** The connections of one viewer. */
  of(role) {
    return this.all.filter((line) => line.role === role);
  }

  /** The times in which a role had no connection, up to now if it has none. */
  away(role, now) {
    const lines = this.of(role);
    return lines.flatMap((line, i) => {
      const to = lines[i + 1]?.openedAt ?? now;
      return line.closedAt && to > line.closedAt ? [{ from: line.closedAt, to, after: line.to, next: lines[i + 1] }] : [];
    });
  }

  toJSON() {
    return this.all;
  }
}
