// What a reader received, as numbers: every frame has one, 1, 2, 3, ... without
// holes, so a reader can prove to itself that nothing is missing and nothing
// came twice.

/**
 * Takes a cursor apart: `run_7x...k.184` is run `run_7x...k`, frame 184.
 * @param {string} cursor
 * @returns {{run: string, seq: number} | null} null when it is not one of ours
 */
export function parseCursor(cursor) {
  const m = /^(run_[0-9a-z]+)\.([0-9]+)$/.exec(cursor);
  return m && { run: m[1], seq: Number(m[2]) };
}

export class Ledger {
  frames = 0;
  duplicates = 0;
  gaps = 0;
  /** The newest frame number; 0 before the first. */
  last = 0;
  /**
   * Which connection delivered which frames, in order.
   * @type {{connection: number, from: number, to: number}[]}
   */
  tape = [];

  /** @param {Partial<Ledger>} [saved] */
  constructor(saved = {}) {
    Object.assign(this, saved);
  }

  /**
   * Counts one frame.
   * @param {number} seq
   * @param {number} connection
   * @returns {boolean} whether the frame is new and has to be shown
   */
  take(seq, connection) {
    if (seq <= this.last) {
      this.duplicates++;
      return false;
    }
    this.gaps += seq - this.last - 1;
    this.frames++;
    const end = this.tape.at(-1);
    if (end?.connection === connection && seq === this.last + 1) end.to = seq;
    else this.tape.push({ connection, from: seq, to: seq });
    this.last = seq;
    return true;
  }
}
