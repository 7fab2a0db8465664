package dialect

import (
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// headerAIData marks the streams of [aiData]; their content type is text/plain.
const headerAIData = "X-Vercel-Ai-Data-Stream"

// aiData is the data stream of the AI SDK up to version 4: lines of a code, a
// colon and JSON. Its clients skip an empty line and nothing else. Backends of
// assistant-ui send it, too, with codes of their own and tokens counted in other
// words, and most of them neither begin a step nor end the message: a stream
// without steps may just end.
var aiData = withSteps(spec{
	Dialect: Dialect{
		Name: "ai-data-v1", Kind: frame.Lines, Wire: Wire{Keepalive: "\n"},
		Framing: func(h http.Header) (frame.Kind, bool) { return frame.Lines, h.Get(headerAIData) != "" },
		certain: func(*frame.Frame) bool { return false }, // its header field says so
		Failure: aiDataFailure,
	},
	find: findCode,
	rules: rules{
		"f": {id: "messageId"},
		"0": {text: paths{""}},
		"g": {reasoning: paths{""}},
		"b": {tool: &tool{key: "toolCallId", name: "toolName"}},
		"c": {tool: &tool{key: "toolCallId", piece: "argsTextDelta"}},
		"9": {tool: &tool{key: "toolCallId", name: "toolName", whole: "args"}},
		"a": {tool: &tool{key: "toolCallId", result: paths{"result"}}},
		"3": {fail: paths{""}},
		"d": {
			end: true, finish: paths{"finishReason"}, is: "message.completed",
			usage: &usage{
				input:  []string{"usage.promptTokens", "usage.inputTokens"},
				output: []string{"usage.completionTokens", "usage.outputTokens"}, whole: true,
			},
		},
	},
	words: aiWords,
}.dialect())

func withSteps(d *Dialect) *Dialect {
	reader := d.NewReader
	d.NewReader = func() Reader { return &stepless{Reader: reader()} }
	return d
}

// stepless looks for what the answer begins with.
type stepless struct {
	Reader

	begun bool
}

// Read implements [Reader]. After an answer that began without a step a clean
// end is a whole answer, unless something else is said.
func (s *stepless) Read(f *frame.Frame) Facts {
	out := s.Reader.Read(f)
	if s.begun = s.begun || out.Outcome != OutcomeNone; s.begun || len(f.Data) < 2 || f.Data[1] != ':' || !valid(f.Data[2:]) {
		return out
	}
	switch f.Data[0] {
	case 'f':
		s.begun = true
	case '0', 'g', 'b', '9':
		s.begun = true
		out.Outcome = OutcomeCompleted
	}
	return out
}

func findCode(rs rules, f *frame.Frame) (*rule, []byte) {
	if len(f.Data) < 2 || f.Data[1] != ':' {
		return nil, nil
	}
	return rs[string(f.Data[:1])], f.Data[2:]
}

func aiDataFailure(f Failure) [][]byte {
	return [][]byte{append(append([]byte("3:"), oneLine(f.Message)...), '\n')}
}
