package sdktest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// job is one call of an SDK.
type job struct {
	Call   string            `json:"call"` // a name in the folder's sdk.mjs
	Base   string            `json:"base"` // scheme, host and port
	Header map[string]string `json:"header"`
	// After is the number of the chunk after which the script says so.
	After int `json:"after,omitempty"`
	// Filler is what fills silence; the script says so whenever it has begun to.
	Filler string `json:"filler,omitempty"`
	// Retries is how often the SDK may try again by itself.
	Retries int `json:"retries,omitempty"`

	// Of the Responses API.
	ID         string `json:"id,omitempty"`
	Position   *int   `json:"position,omitempty"`
	Background bool   `json:"background,omitempty"`
}

// outcome is what became of a job.
type outcome struct {
	// Chunks are what the SDK handed on, as JSON.
	Chunks []string
	// Answer is what it accumulated.
	Answer json.RawMessage
	Error  *sdkError
	// Wire is what came over it, for a job with a filler.
	Wire string
	// Answers are the heads of the answers to its requests.
	Answers []struct {
		Status        int
		Run, Replayed string
	}
}

// sdkError is what an SDK raised.
type sdkError struct {
	Kinds         []string // its class, and those above it
	Message, Code string
	Status        int
}

// accumulated is an answer as an SDK puts it together.
type accumulated struct {
	Text   string
	Finish string
	Tools  []testkit.ToolCall
	Usage  *tokens
	// Whole is the SDK's own form of a response.
	Whole struct{ ID, Object, Status string }
}

// tokens are counted alike by all scripts and in records.
type tokens struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// The unmodified SDKs, each with a script that calls it.
var (
	openAI    = npm.NewFolder("openai", "jobs")
	anthropic = npm.NewFolder("anthropic", "jobs")
	gemini    = npm.NewFolder("gemini", "jobs")
	cohere    = npm.NewFolder("cohere", "jobs")
	ollama    = npm.NewFolder("ollama", "jobs")
	replicate = npm.NewFolder("replicate", "jobs")
)

// sdk is a process that does jobs one after the other.
type sdk struct{ *npm.Script }

// start starts the process of an SDK.
func start(t *testing.T, f *npm.Folder) sdk {
	t.Helper()
	return sdk{f.Run(t, "sdk.mjs")}
}

// do does a job.
func (s sdk) do(t *testing.T, j job) outcome {
	t.Helper()
	s.begin(t, j)
	return npm.Result[outcome](t, s.Script)
}

// begin hands a job over.
func (s sdk) begin(t *testing.T, j job) {
	t.Helper()
	line, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	s.Tell(t, string(line))
}

// reach begins a job, waits for its first chunk and returns its run.
func (s sdk) reach(t *testing.T, j job) string {
	t.Helper()
	j.After = 1
	s.begin(t, j)
	return s.reached(t)
}

// reached waits for the chunk that was asked for and returns its run.
func (s sdk) reached(t *testing.T) string {
	t.Helper()
	line := s.Line(t)
	run, ok := strings.CutPrefix(line, "reached ")
	if !ok {
		t.Fatalf("the call came to its end: %.600s", line)
	}
	return run
}

// raised is the class of what the SDK raised, or "".
func (o *outcome) raised() string {
	if o.Error == nil {
		return ""
	}
	return o.Error.Kinds[0]
}

// run is the run of the last answer.
func (o *outcome) run(t *testing.T) string {
	t.Helper()
	if len(o.Answers) == 0 || o.Answers[len(o.Answers)-1].Run == "" {
		t.Fatalf("no run answered: %+v, error %+v", o.Answers, o.Error)
	}
	return o.Answers[len(o.Answers)-1].Run
}

// answer is what the SDK accumulated.
func (o *outcome) answer(t *testing.T) accumulated {
	t.Helper()
	return testkit.Decode[accumulated](t, o.Answer)
}

// subject is whom the gateway takes the SDKs for.
const subject = "user-a"

// onStage is the header of a job: the script of the upstream, and the subject.
func onStage(stage *testkit.Stage) map[string]string {
	return map[string]string{testkit.StageHeader: stage.Name(), testkit.SubjectHeader: subject}
}
