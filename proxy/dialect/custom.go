package dialect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// Custom is a dialect as a table that an operator writes. Places are paths into
// the JSON of a frame: names and numbers joined by dots.
type Custom struct {
	// How the body falls into frames: `sse` or `lines`. Default: sse.
	Frames string `json:"frames,omitempty"`
	// What tells frames apart: `event`, the field of the block, or the path of a
	// member that names the type. Default: event for sse, `type` for lines.
	Type string `json:"type,omitempty"`
	// What frames tell whose type has no entry in on.
	CustomRule
	// What frames of some types tell.
	On []CustomType `json:"on,omitempty"`
	// Data that is an end marker, such as `[DONE]`.
	Done []string `json:"done,omitempty"`
	// What words at the path of finish mean: a word and one of `completed`,
	// `length`, `content_filter`, `refusal`, `input_required`, `failed`,
	// `cancelled`. Other words mean completed.
	Words map[string]string `json:"words,omitempty"`
	// A body that ends properly is a whole answer, marker or not.
	CleanEnd bool `json:"clean_end,omitempty"`
	// Ends of the paths at which the backend generates; a segment * is any.
	Generate []string `json:"generate,omitempty"`
	// Whether frames get our id: `on` or `off`. Default: on for sse; lines have
	// none.
	IDs string `json:"ids,omitempty"`
	// What fills silence: `comment`, `space`, `newline` or `off`. Default:
	// comment for sse, space for lines.
	Filler string `json:"filler,omitempty"`
	// The frame by which a client learns that its stream did not complete: JSON
	// in which {message} and {code} stand for strings. Default: none, and the
	// connection is aborted.
	Failure string `json:"failure,omitempty"`
	// The event field of that frame.
	FailureEvent string `json:"failure_event,omitempty"`
}

// CustomType is what frames of some types tell.
type CustomType struct {
	// The types.
	Types []string `json:"types"`
	CustomRule
	// The frame ends the stream.
	End bool `json:"end,omitempty"`
	// How it says that the run ended: a meaning as in words.
	Means string `json:"means,omitempty"`
	// The agent waits for input while the stream stays open, or goes on.
	Waiting bool `json:"waiting,omitempty"`
	Resumes bool `json:"resumes,omitempty"`
}

// CustomRule is where in a frame things stand.
type CustomRule struct {
	// Pieces of the answer's text and reasoning; the first path that holds some
	// counts.
	Text      []string `json:"text,omitempty"`
	Reasoning []string `json:"reasoning,omitempty"`
	// Upstream's id of the run, its id of the conversation, the model.
	ID           string `json:"id,omitempty"`
	Conversation string `json:"conversation,omitempty"`
	Model        string `json:"model,omitempty"`
	// Counts of tokens, of the whole run so far.
	InputTokens  string `json:"input_tokens,omitempty"`
	OutputTokens string `json:"output_tokens,omitempty"`
	// An error; a frame that holds one has failed.
	Error []string `json:"error,omitempty"`
	// The word for how the answer ended; see words.
	Finish []string `json:"finish,omitempty"`
	// A tool call: its id, the tool's name, a piece of its arguments.
	CallID        string `json:"call_id,omitempty"`
	CallName      string `json:"call_name,omitempty"`
	CallArguments string `json:"call_arguments,omitempty"`
	// What a tool that upstream ran gave; call_id says for which call.
	Result string `json:"result,omitempty"`
}

// customMeanings are the words for meanings.
var customMeanings = map[string]meaning{
	"completed": {outcome: OutcomeCompleted}, "length": meansCut, "content_filter": meansFiltered, "refusal": meansRefused,
	"input_required": meansAsking, "failed": meansFailed, "cancelled": meansStopped,
}

// customPrefix begins the names of custom dialects. What follows depends on the
// table alone, so that every process with the same table knows the name.
const customPrefix = "custom-"

// Dialect compiles the table, which must have passed [Custom.Check].
func (c *Custom) Dialect() *Dialect {
	table, err := json.Marshal(c)
	if err != nil {
		panic("dialect: a table of strings is JSON: " + err.Error())
	}
	sum := sha256.Sum256(table)
	s := spec{
		Dialect: Dialect{
			Name: customPrefix + hex.EncodeToString(sum[:4]), Kind: frame.SSE, CleanEnd: c.CleanEnd, Wire: c.wire(),
			generations: c.Generate,
			certain:     func(*frame.Frame) bool { return false },
			Failure:     c.failure,
		},
		find:  c.finder(),
		words: map[string]meaning{},
	}
	if c.Frames == customLines {
		s.Kind = frame.Lines
	}
	for word, means := range c.Words {
		s.words[word] = customMeanings[means]
	}
	return s.dialect()
}

const (
	customLines = "lines"
	customEvent = "event"
)

func (c *Custom) wire() Wire {
	w := sseWire
	if c.Frames == customLines {
		w = linesWire
	}
	if c.IDs == "off" {
		w.IDs = false
	}
	if c.Filler != "" {
		w.Keepalive = map[string]string{"comment": sseWire.Keepalive, "space": " ", "newline": "\n", "off": ""}[c.Filler]
	}
	return w
}

// finder: what tells more than text and ids is known by what is in it.
func (c *Custom) finder() finder {
	kind := c.Type
	if kind == "" && c.Frames == customLines {
		kind = "type"
	}
	named := map[string]*rule{}
	for i := range c.On {
		l := c.On[i].rule()
		for _, name := range c.On[i].Types {
			named[name] = l
		}
	}
	quiet, telling, failing := c.rule(), c.rule(), c.rule()
	quiet.usage, quiet.finish = nil, nil
	if quiet.tool != nil {
		quiet.tool = &tool{key: c.CallID, piece: c.CallArguments}
	}
	failing.fail, failing.end = append(paths(c.Error), ""), true
	tells := c.telling()
	done := &rule{end: true, bare: true}
	return func(_ rules, f *frame.Frame) (*rule, []byte) {
		if slices.ContainsFunc(c.Done, func(marker string) bool { return string(f.Data) == marker }) {
			return done, f.Data
		}
		if l, ok := named[string(typeOfFrame(kind, f))]; ok {
			return l, f.Data
		}
		switch {
		case anyAt(f.Data, c.Error):
			return failing, f.Data
		case anyAt(f.Data, tells):
			return telling, f.Data
		default:
			return quiet, f.Data
		}
	}
}

func typeOfFrame(kind string, f *frame.Frame) []byte {
	if kind == "" || kind == customEvent {
		return f.Event
	}
	name := unquoted(at(f.Data, kind))
	return name
}

// anyAt reports whether one of the places says something.
func anyAt(data []byte, where []string) bool {
	return slices.ContainsFunc(where, func(path string) bool { return says(at(data, path)) })
}

// telling are the places of what a reader wants to know.
func (r *CustomRule) telling() (where []string) {
	for _, path := range append([]string{r.InputTokens, r.OutputTokens, r.CallName, r.Result}, r.Finish...) {
		if path != "" {
			where = append(where, path)
		}
	}
	return where
}

// rule compiles a row of the table.
func (r *CustomRule) rule() *rule {
	l := &rule{id: r.ID, conversation: r.Conversation, model: r.Model, text: r.Text, reasoning: r.Reasoning, finish: r.Finish}
	if r.InputTokens != "" || r.OutputTokens != "" {
		l.usage = &usage{input: placeOf(r.InputTokens), output: placeOf(r.OutputTokens)}
	}
	if r.CallID != "" || r.CallName != "" {
		l.tool = &tool{key: r.CallID, name: r.CallName, piece: r.CallArguments}
		if r.Result != "" {
			l.tool.result = paths{r.Result}
		}
	}
	return l
}

func placeOf(path string) []string {
	if path == "" {
		return nil
	}
	return []string{path}
}

func (t *CustomType) rule() *rule {
	l := t.CustomRule.rule()
	l.end, l.settles, l.resumes = t.End, customMeanings[t.Means], t.Resumes
	if len(t.Error) > 0 || t.Means == "failed" {
		l.fail = append(paths(t.Error), "")
	}
	if t.Waiting {
		l.read, l.is = func(r *reader, _ gjson.Result, out *Facts) { r.wait(out) }, "run.waiting"
	}
	return l
}

func (c *Custom) failure(f Failure) [][]byte {
	if c.Failure == "" {
		return nil
	}
	data := []byte(filled(c.Failure, f.Message, f.Code))
	switch {
	case c.Frames == customLines:
		return [][]byte{append(data, '\n')}
	case c.FailureEvent != "":
		return [][]byte{eventFrame(c.FailureEvent, data)}
	default:
		return [][]byte{dataFrame(data)}
	}
}

// filled puts two strings into a template of JSON.
func filled(template, message, code string) string {
	return strings.NewReplacer("{message}", string(oneLine(message)), "{code}", string(oneLine(code))).Replace(template)
}
