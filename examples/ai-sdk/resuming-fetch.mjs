// A fetch for clients that cannot go on with a stream that broke. When the body
// of a run breaks off, it reads on in the run's log, after the last whole event,
// and its caller notices nothing but a pause.
export async function resumingFetch(input, init) {
  const first = await fetch(input, init);
  const run = first.headers.get("X-Run-Id");
  if (!run || !first.body) return first;

  const log = new URL(`/_runs/${run}/events?control=off`, first.url);
  let reader = first.body.pipeThrough(new TextDecoderStream()).getReader();
  let cursor = `${run}.0`;
  let open = ""; // the event that has begun

  async function comeBack(reason) {
    open = "";
    for (let pause = 250; ; pause = Math.min(2 * pause, 10_000)) {
      if (init?.signal?.aborted) throw reason;
      await new Promise((later) => setTimeout(later, pause));
      const headers = new Headers(init?.headers);
      headers.set("Last-Event-ID", cursor);
      const answer = await fetch(log, { headers, credentials: init?.credentials, signal: init?.signal }).catch(() => null);
      if (!answer || answer.status >= 500) continue; // the network or the store is away
      if (answer.status === 204) return false; // that was all
      if (!answer.ok) throw reason;
      reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      return true;
    }
  }

  async function pull(out) {
    const { done, value } = await reader.read().catch(async (reason) => ({ done: !(await comeBack(reason)), value: "" }));
    if (done) return out.close();
    const end = (open += value).lastIndexOf("\n\n") + 2;
    if (end < 2) return pull(out);
    const whole = open.slice(0, end);
    open = open.slice(end);
    cursor = [...whole.matchAll(/^id: (.+)$/gm)].at(-1)?.[1] ?? cursor;
    out.enqueue(whole);
  }

  const body = new ReadableStream({ pull, cancel: (reason) => reader.cancel(reason) });
  return new Response(body.pipeThrough(new TextEncoderStream()), first);
}
