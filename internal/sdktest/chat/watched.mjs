// watching is a fetch that says "saw" once, when a piece of a body begins with
// what fills a silence while it is armed.
export const watching = (filler, armed) => async (...args) => {
  const response = await fetch(...args);
  if (!response.body) return response;
  let saw = false;
  const watch = new TransformStream({
    transform(text, out) {
      if (!saw && armed() && text.startsWith(filler)) {
        saw = true;
        process.stdout.write("saw\n");
      }
      out.enqueue(text);
    },
  });
  return new Response(response.body.pipeThrough(new TextDecoderStream()).pipeThrough(watch).pipeThrough(new TextEncoderStream()), response);
};
