// Package browser drives a headless Chromium over its debugging pipe: open a
// page, run a script in it, read what the script returns.
//
// It promises that a browser ends with the test that launched it, and that a
// script error or an answer that never comes fails that test.
package browser

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

// Browser is a running Chromium.
type Browser struct {
	cmd    *exec.Cmd
	to     io.WriteCloser
	exited chan struct{} // closed when nothing more can be read from it

	mu      sync.Mutex // guards everything below
	last    int
	answers map[int]chan answer
}

// command is one call of the DevTools protocol.
type command struct {
	ID      int    `json:"id"`
	Session string `json:"sessionId,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// answer is what came back for a command. Events have no id and are ignored.
type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Launch starts a browser that ends with the test. Without a Chromium the test
// is skipped, in CI it fails.
func Launch(t testing.TB) *Browser {
	t.Helper()
	program := testkit.RequireProgram(t, "chromium", "chromium-browser", "google-chrome")
	args := []string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + t.TempDir(), "--no-first-run",
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // the sandbox refuses to start as root
	}
	b := &Browser{cmd: exec.Command(program, args...), exited: make(chan struct{}), answers: map[int]chan answer{}}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b.to = ourOut
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // its descriptors 3 and 4
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirIn.Close() // the child has its own
	_ = theirOut.Close()
	go b.listen(ourIn)
	t.Cleanup(b.Close)
	return b
}

// Close ends the browser and waits until it is gone.
func (b *Browser) Close() {
	_ = b.to.Close() // a browser whose pipe closes exits
	select {
	case <-b.exited:
	case <-time.After(5 * time.Second):
		_ = b.cmd.Process.Kill()
		<-b.exited
	}
	_ = b.cmd.Wait() // how it exits tells nothing about the test
}

// listen hands answers to who waits for them. Messages end with a zero byte.
func (b *Browser) listen(from io.ReadCloser) {
	defer close(b.exited)
	defer from.Close()
	in := bufio.NewReader(from)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var a answer
		if json.Unmarshal(raw[:len(raw)-1], &a) == nil && a.ID != 0 {
			b.mu.Lock()
			if c := b.answers[a.ID]; c != nil {
				c <- a
				delete(b.answers, a.ID)
			}
			b.mu.Unlock()
		}
	}
}

// call sends a command and decodes its result.
func (b *Browser) call(t testing.TB, session, method string, params, result any) {
	t.Helper()
	c := make(chan answer, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.answers[id] = c
	b.mu.Unlock()
	raw, err := json.Marshal(command{ID: id, Session: session, Method: method, Params: params})
	if err == nil {
		_, err = b.to.Write(append(raw, 0))
	}
	if err != nil {
		t.Fatalf("sending %s to the browser: %v", method, err)
	}
	select {
	case a := <-c:
		if a.Error != nil {
			t.Fatalf("%s: %s", method, a.Error.Message)
		}
		if err := json.Unmarshal(a.Result, result); err != nil {
			t.Fatalf("reading the result of %s: %v", method, err)
		}
	case <-b.exited:
		t.Fatalf("the browser ended during %s", method)
	case <-time.After(testkit.Patience):
		t.Fatalf("the browser did not answer %s", method)
	}
}

// Page is one tab.
type Page struct {
	browser *Browser
	session string
}

// Open opens a page in a new tab and waits until it has loaded.
func (b *Browser) Open(t testing.TB, url string) *Page {
	t.Helper()
	var target struct {
		ID string `json:"targetId"`
	}
	b.call(t, "", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct {
		ID string `json:"sessionId"`
	}
	b.call(t, "", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &attached)
	p := &Page{browser: b, session: attached.ID}
	p.Navigate(t, url)
	return p
}

// Navigate goes to another page and waits until it has loaded.
func (p *Page) Navigate(t testing.TB, url string) {
	t.Helper()
	var nav struct {
		Error string `json:"errorText"`
	}
	p.browser.call(t, p.session, "Page.navigate", map[string]any{"url": url}, &nav)
	if nav.Error != "" {
		t.Fatalf("opening %s: %s", url, nav.Error)
	}
	p.Eval(t, `new Promise(done => document.readyState === "complete" ? done() : addEventListener("load", done))`, nil)
}

// Eval runs an expression in the page, waits for its promise if it is one, and
// decodes what it returns.
func (p *Page) Eval(t testing.TB, expression string, result any) {
	t.Helper()
	var out struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	p.browser.call(t, p.session, "Runtime.evaluate",
		map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if out.Exception != nil {
		t.Fatalf("script failed: %s %s", out.Exception.Text, out.Exception.Exception.Description)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(out.Result.Value, result); err != nil {
		t.Fatalf("reading what the script returned: %v in %s", err, fmt.Sprintf("%.200s", out.Result.Value))
	}
}
