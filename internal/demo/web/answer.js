// Folds the chunks of an OpenAI chat stream into an answer. It is a plain
// object inside, so that it survives a reload as JSON.

/** The chunk in data; what cannot be read is still a frame, but shows nothing. */
function parse(data) {
  try {
    return Object(JSON.parse(data));
  } catch {
    return {};
  }
}

export class Answer {
  text = "";
  reasoning = "";
  /** @type {{id: string, name: string, arguments: string}[]} */
  tools = [];
  usage = null;
  /** Upstream's own id of the generation. */
  id = "";
  finish = "";
  /**
   * The first error: what went wrong, before what followed from it.
   * @type {{message: string, code?: string} | null}
   */
  error = null;
  done = false;
  /**
   * What stands between the pieces of the text, in order of arrival: a tool
   * call by its index, or the seam where another connection took over.
   * @type {{at: number, tool?: number, seam?: {seq: number, connection: number}}[]}
   */
  marks = [];

  /** @param {Partial<Answer>} [saved] */
  constructor(saved = {}) {
    Object.assign(this, saved);
  }

  /** @param {string} data the data of one event */
  fold(data) {
    if (data === "[DONE]") {
      this.done = true;
      return;
    }
    const chunk = parse(data);
    if (chunk.error) this.error ??= chunk.error;
    if (chunk.id) this.id = chunk.id;
    if (chunk.usage) this.usage = chunk.usage;
    for (const choice of chunk.choices ?? []) this.#choice(choice);
  }

  #choice(choice) {
    const delta = choice.delta ?? {};
    if (choice.finish_reason) this.finish = choice.finish_reason;
    this.text += delta.content ?? "";
    this.reasoning += delta.reasoning_content ?? "";
    for (const piece of delta.tool_calls ?? []) this.#tool(piece);
  }

  // A call comes in pieces that share an index; id and name are in the first.
  #tool({ index, id, function: f = {} }) {
    if (!this.tools[index]) this.marks.push({ at: this.text.length, tool: index });
    const call = (this.tools[index] ??= { id: "", name: "", arguments: "" });
    call.id ||= id ?? "";
    call.name ||= f.name ?? "";
    call.arguments += f.arguments ?? "";
  }

  /**
   * Remembers that the next text comes from another connection.
   * @param {number} seq @param {number} connection
   */
  seam(seq, connection) {
    this.marks.push({ at: this.text.length, seam: { seq, connection } });
  }
}
