// Package demo is a backend to try the gateway with: a scripted agent that
// speaks the OpenAI chat wire shape at reading speed, and a page that shows
// what happens to its answers when connections come and go. It knows nothing
// of runs: the gateway stands in front of it on the same origin, and the page
// talks to the gateway.
//
// It promises:
//
//  1. The prompt alone decides the answer: equal prompts get equal text,
//     reasoning, tool calls and ending, at the same pace.
//  2. A stream is what an OpenAI client expects: one chunk per token, one id in
//     all of them, a finish reason, usage when it was asked for, [DONE].
//  3. An answer whose reader goes away stops within one token and logs nothing.
//  4. The agent tells what it saw (GET /agent/calls), so that nobody has to
//     take the gateway's word for how often it was called.
//  5. The page needs nothing from elsewhere and runs under the content security
//     policy it is served with.
package demo
