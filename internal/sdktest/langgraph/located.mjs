// Names the stream of each run in Location, as hosted servers do: their clients
// go on there by themselves.
import { Hono } from "hono";

export const app = new Hono();
app.use(async (context, next) => {
  await next();
  const run = context.res.headers.get("Content-Location");
  if (run && context.req.path.endsWith("/stream")) context.header("Location", run + "/stream");
});
