package sdktest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit/npm"
)

// The recording of a response in the background, its id, and what its service
// answered to who came back to it after the first frame.
const (
	inBackground  = "openai-responses/background-queued.sse"
	responseID    = "resp_0850765c843cca5300699cc47d93c0819089a181f5feeff8eb"
	fromBackThere = unread
)

// background is a site with the recording on stage: its first frames, and the
// rest once the gate opens.
func background(t *testing.T, frames int) (base string, c testkit.Client, stage *testkit.Stage, gate chan struct{}) {
	t.Helper()
	u := testkit.NewUpstream(t)
	g := testkit.Start(t, testkit.Setup{Sites: map[string]string{"": testkit.Site(u.Addr())}})
	gate = make(chan struct{})
	begin := first(t, inBackground, frames)
	rest := strings.TrimPrefix(string(testkit.Recording(t, inBackground)), begin)
	stage = u.Stage(testkit.Script{
		testkit.OnCancel(http.StatusOK, `{"id":"`+responseID+`","object":"response","status":"cancelled","background":true,"output":[]}`, "stop"),
		testkit.Header("Content-Type", eventStream), testkit.FlushHeaders(), testkit.Send(begin), testkit.Gate(gate), testkit.Send(rest), testkit.End(),
	}, testkit.Stream("application/json", `{"id":"`+responseID+`","object":"response","status":"queued","output":[],"model":"of the backend"}`))
	return g.URL(""), g.Client("").As(subject), stage, gate
}

// TestOpenAISDKGoesOnAfterANumber: responses.retrieve reads on after a number,
// of a response that runs and of one that has ended. The backend knows of
// nothing but the first call.
func TestOpenAISDKGoesOnAfterANumber(t *testing.T) {
	t.Parallel()
	base, c, stage, gate := background(t, 8)
	starter, reader := start(t, openAI), start(t, openAI)
	create := job{Call: "responses.create", Base: base, Header: onStage(stage), Background: true}
	run := starter.reach(t, create)
	resume := job{Call: "responses.resume", Base: base, Header: onStage(stage), ID: responseID, Position: new(3)}
	if of := reader.reach(t, resume); of != run {
		t.Errorf("run %s answers, want %s", of, run)
	}
	close(gate)
	whole := npm.Result[outcome](t, starter.Script)
	running := npm.Result[outcome](t, reader.Script)
	if whole.Error != nil || running.Error != nil || !slices.Equal(running.Chunks, whole.Chunks[4:]) {
		t.Errorf("after 3 got %q and %v, want those from the fifth of %q", running.Chunks, running.Error, whole.Chunks)
	}
	ended(t, c, run)
	for n := range whole.Chunks {
		resume.Position = new(n)
		if got := reader.do(t, resume); got.Error != nil || !slices.Equal(got.Chunks, whole.Chunks[n+1:]) {
			t.Errorf("after %d got %q and %v", n, got.Chunks, got.Error)
		}
	}
	resume.Position = nil
	if got := reader.do(t, resume); got.Error != nil || !slices.Equal(got.Chunks, whole.Chunks) {
		t.Errorf("from the beginning got %q and %v", got.Chunks, got.Error)
	}
	if stage.Starts() != 1 {
		t.Errorf("the backend got %d calls, want 1", stage.Starts())
	}
}

// TestOpenAISDKGoesOnAsAtTheService: what the gateway's log gives after a
// number is what the service gave.
func TestOpenAISDKGoesOnAsAtTheService(t *testing.T) {
	t.Parallel()
	base, c, stage, gate := background(t, 8)
	close(gate)
	s := start(t, openAI)
	first := s.do(t, job{Call: "responses.create", Base: base, Header: onStage(stage), Background: true})
	ended(t, c, first.run(t))
	resume := job{Call: "responses.resume", Base: base, Header: onStage(stage), ID: responseID, Position: new(0)}
	ours := s.do(t, resume)
	u := testkit.NewUpstream(t)
	resume.Base, resume.Header = u.URL(), onStage(u.Stage(inPieces(eventStream, testkit.Recording(t, fromBackThere), 700)))
	theirs := s.do(t, resume)
	if len(theirs.Chunks) == 0 || len(ours.Chunks) != len(theirs.Chunks) {
		t.Fatalf("got %d chunks, the service gave %d", len(ours.Chunks), len(theirs.Chunks))
	}
	for i := range theirs.Chunks {
		if a, b := told(t, ours.Chunks[i]), told(t, theirs.Chunks[i]); a != b {
			t.Errorf("chunk %d is %s, the service gave %s", i, a, b)
		}
	}
}

// told is what an event says: its padding differs from one reading to the next.
func told(t *testing.T, chunk string) string {
	t.Helper()
	e := testkit.Decode[struct {
		Type, Delta    string
		SequenceNumber int `json:"sequence_number"`
	}](t, []byte(chunk))
	return e.Type + " " + strconv.Itoa(e.SequenceNumber) + " " + e.Delta
}

// TestOpenAISDKCancelsAResponse: responses.cancel stops the run, and the SDK
// gets a response. The backend is called only for what it can cancel.
func TestOpenAISDKCancelsAResponse(t *testing.T) {
	t.Parallel()
	for name, runs := range map[string]bool{"in the background": true, "with its connection": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, c, stage, _ := background(t, 8)
			starter, stopper := start(t, openAI), start(t, openAI)
			run := starter.reach(t, job{Call: "responses.create", Base: base, Header: onStage(stage), Background: runs})
			got := stopper.do(t, job{Call: "responses.cancel", Base: base, Header: onStage(stage), ID: responseID})
			if got.Error != nil {
				t.Fatalf("responses.cancel raised %+v", *got.Error)
			}
			if whole := got.answer(t).Whole; whole.ID != responseID || whole.Object != "response" || whole.Status != "cancelled" {
				t.Errorf("responses.cancel got %s, want the cancelled response", got.Answer)
			}
			if o := npm.Result[outcome](t, starter.Script); o.Error == nil || o.Error.Code != "cancelled" {
				t.Errorf("the reader got %+v, want an error that says cancelled", o.Error)
			}
			if rec := ended(t, c, run); rec.State != "cancelled" || rec.Cancel.Version != 1 {
				t.Errorf("run is %s after %d Stops", rec.State, rec.Cancel.Version)
			}
			if calls := len(stage.Cancels()); (calls == 1) != runs || calls > 1 || stage.Starts() != 1 {
				t.Errorf("the backend got %d cancel calls and %d others", calls, stage.Starts())
			}
		})
	}
}

// TestOpenAISDKRetrievesFromTheBackend what is no stream: the response as it
// stands there.
func TestOpenAISDKRetrievesFromTheBackend(t *testing.T) {
	t.Parallel()
	base, _, stage, gate := background(t, 8)
	close(gate)
	s := start(t, openAI)
	s.do(t, job{Call: "responses.create", Base: base, Header: onStage(stage), Background: true})
	got := s.do(t, job{Call: "responses.retrieve", Base: base, Header: onStage(stage), ID: responseID})
	if got.Error != nil || !strings.Contains(string(got.Answer), "of the backend") || got.Answers[0].Run != "" {
		t.Errorf("got %s and %+v, want the backend's answer alone", got.Answer, got.Error)
	}
	if call := stage.Call(t, 2); call.Method != http.MethodGet || call.URI != "/v1/responses/"+responseID {
		t.Errorf("the backend got %s %s", call.Method, call.URI)
	}
}
