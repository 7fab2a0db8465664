package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

var update = flag.Bool("update", false, "write the answers in testdata/stories anew")

// TestStories tells what clients send and get, byte for byte. A story is an
// archive: the options of the site ("Caddyfile", and "global" for those of the
// store), what the backend does ("upstream.jsonl", whose pauses wait for an
// "@open"), and requests, each with its answer. Ids, times and what else is
// drawn anew each time have names instead.
//
// A request may begin with lines for the test:
//
//	@leave n   leave after n events
//	@keep n    read n events; the rest is read when the story is over
//	@open      let the backend go on first
//	@until s   ask again until the answer has s in it
func TestStories(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/stories/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d stories and error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			tellStory(t, file)
		})
	}
}

// story is one that is being told.
type story struct {
	archive *txtar.Archive
	client  testkit.Client
	gate    chan struct{}
	kept    []keptAnswer
	names   map[string]string // what was drawn, and its name
	counts  map[string]int
}

// keptAnswer is one whose rest is still to be read.
type keptAnswer struct {
	name   string
	answer *testkit.Answer
}

func tellStory(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &story{archive: archive, gate: make(chan struct{}), names: map[string]string{}, counts: map[string]int{}}
	told := &txtar.Archive{Comment: archive.Comment}
	answers := map[string]string{}
	s.open(t)
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".request"); ok {
			s.ask(t, name, string(f.Data), answers)
		}
	}
	for _, k := range s.kept {
		answers[k.name] = s.whole(k.answer)
	}
	for _, f := range archive.Files {
		name, isAnswer := strings.CutSuffix(f.Name, ".answer")
		if !isAnswer {
			told.Files = append(told.Files, f)
		} else if !*update && answers[name] != string(f.Data) {
			t.Errorf("%s: got\n%s\nwant\n%s", f.Name, answers[name], f.Data)
		}
		if name, ok := strings.CutSuffix(f.Name, ".request"); ok && answers[name] != "" {
			told.Files = append(told.Files, txtar.File{Name: name + ".answer", Data: []byte(answers[name])})
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(told), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if len(told.Files) != len(archive.Files) {
		t.Errorf("the story has %d files, want %d", len(archive.Files), len(told.Files))
	}
}

// part is a file of the story, or "".
func (s *story) part(name string) string {
	for _, f := range s.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// open starts what the story is about.
func (s *story) open(t *testing.T) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "upstream.jsonl")
	if err := os.WriteFile(script, []byte(s.part("upstream.jsonl")), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := testkit.NewUpstream(t)
	upstream.Stage(testkit.LoadScript(t, script).Gated(s.gate))
	g := testkit.Start(t, testkit.Setup{
		Global: s.part("global"),
		Sites:  map[string]string{"": testkit.Site(upstream.Addr(), s.part("Caddyfile"))},
	})
	s.client = g.Client("")
}

// ask carries one request out and notes its answer.
func (s *story) ask(t *testing.T, name, text string, answers map[string]string) {
	t.Helper()
	order := map[string]string{}
	for strings.HasPrefix(text, "@") {
		var first string
		first, text, _ = strings.Cut(text, "\n")
		word, value, _ := strings.Cut(first, " ")
		order[word] = value
	}
	if _, opens := order["@open"]; opens {
		s.gate <- struct{}{}
	}
	if text == "" {
		return
	}
	request := s.request(t, text)
	a := s.client.Do(t, request)
	events, _ := strconv.Atoi(order["@leave"] + order["@keep"])
	a.Take(events)
	switch {
	case order["@keep"] != "":
		s.see(a.Run()) // names are given in the order of the story
		s.kept = append(s.kept, keptAnswer{name, a})
	case order["@leave"] != "":
		answers[name] = s.render(a, a.Events.Raw(), false)
		a.Drop()
	case order["@until"] != "":
		testkit.Eventually(t, name, func() bool {
			answers[name] = s.whole(s.client.Do(t, request))
			return strings.Contains(answers[name], order["@until"])
		})
	default:
		answers[name] = s.whole(a)
	}
}

// request reads a request in which names stand for what was drawn.
func (s *story) request(t *testing.T, text string) testkit.Ask {
	t.Helper()
	for drawn, name := range s.names {
		text = strings.ReplaceAll(text, name, drawn)
	}
	head, body, _ := strings.Cut(text, "\n\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return testkit.Ask{Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header, Body: strings.TrimSuffix(body, "\n")}
}

// whole reads an answer to its end.
func (s *story) whole(a *testkit.Answer) string {
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		_, err := a.Events.All()
		return s.render(a, a.Events.Raw(), err != nil)
	}
	body, err := a.Bytes()
	return s.render(a, body, err != nil && !errors.Is(err, io.EOF))
}

// render writes an answer with names for what was drawn.
func (s *story) render(a *testkit.Answer, body []byte, broken bool) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d %s\n", a.Status, http.StatusText(a.Status))
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		for _, value := range a.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintf(&b, "\n%s", body)
	if broken {
		b.WriteString("(the connection broke)\n")
	}
	text := b.String()
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return s.settle(text)
}

// drawn is what is another each time; all but ids have one name each.
var drawn = []struct {
	found *regexp.Regexp
	name  string
}{
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`), `"TIME"`},
	{regexp.MustCompile(`Date: .*`), "Date: TIME"},
	{regexp.MustCompile(`Etag: .*`), "Etag: TAG"},
	{regexp.MustCompile(`retry: \d+`), "retry: SOON"},
	{regexp.MustCompile(`"revision":\d+`), `"revision":REVISION`},
	{regexp.MustCompile(`Content-Length: \d+`), "Content-Length: LENGTH"},
}

var ids = regexp.MustCompile(`(run|conv)_[0-9a-z]{26,}`)

// see gives an id its name.
func (s *story) see(id string) string {
	if s.names[id] == "" {
		kind, _, _ := strings.Cut(id, "_")
		s.counts[kind]++
		s.names[id] = strings.ToUpper(kind) + strconv.Itoa(s.counts[kind])
	}
	return s.names[id]
}

func (s *story) settle(text string) string {
	text = ids.ReplaceAllStringFunc(text, s.see)
	for _, d := range drawn {
		text = d.found.ReplaceAllString(text, d.name)
	}
	return text
}
