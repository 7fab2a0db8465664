package source

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func listen(t *testing.T) *Server {
	t.Helper()
	s, err := Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func send(t *testing.T, ctx context.Context, s *Server, method, target string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr()+target, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// blocks reads every SSE block of a body.
func blocks(t *testing.T, body io.Reader) []string {
	t.Helper()
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.SplitAfter(string(text), "\n\n")
	return all[:len(all)-1]
}

// checkNumbers fails unless the blocks are frames 1 to n and the end marker.
func checkNumbers(t *testing.T, got []string) {
	t.Helper()
	for i, block := range got[:len(got)-1] {
		if seq, _, ok := ParseFrame([]byte(block)); !ok || seq != uint64(i+1) {
			t.Fatalf("block %d: got %q, want frame %d", i, block, i+1)
		}
	}
	if last := got[len(got)-1]; last != EndMarker {
		t.Errorf("got last block %q, want %q", last, EndMarker)
	}
}

func TestBurstSendsOneFrameThenWaitsForGo(t *testing.T) {
	s := listen(t)
	resp := send(t, t.Context(), s, http.MethodPost, Generate+"?frames=100")
	first, err := bufio.NewReader(io.LimitReader(resp.Body, FrameSize)).ReadString('}')
	if err != nil || !strings.HasPrefix(first, opening) {
		t.Fatalf("got %q (%v), want the first frame", first, err)
	}
	send(t, t.Context(), s, http.MethodPost, Go)
	rest := blocks(t, resp.Body)
	// The limited reader took frame 1 and nothing after it.
	if seq, _, _ := ParseFrame([]byte(rest[0])); seq != 2 {
		t.Errorf("got %q after the first frame, want frame 2", rest[0])
	}
	if got, want := len(rest), 100; got != want { // 99 frames and the end marker
		t.Errorf("got %d blocks after the first, want %d", got, want)
	}
}

func TestPacedStreamRunsUntilFinish(t *testing.T) {
	s := listen(t)
	resp := send(t, t.Context(), s, http.MethodPost, Generate+"?rate=500")
	body := bufio.NewReader(resp.Body)
	var got strings.Builder
	for range 3 {
		block, err := body.ReadString('}')
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(block)
	}
	send(t, t.Context(), s, http.MethodPost, Finish)
	rest, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	got.Write(rest)
	checkNumbers(t, blocks(t, strings.NewReader(got.String())))
}

func TestStreamsOfOneRateAreIndependent(t *testing.T) {
	s := listen(t)
	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	gone := send(t, leaving, s, http.MethodPost, Generate+"?rate=1000")
	stays := send(t, t.Context(), s, http.MethodPost, Generate+"?rate=1000")
	if _, err := io.ReadFull(gone.Body, make([]byte, FrameSize)); err != nil {
		t.Fatal(err)
	}
	leave()
	if _, err := io.ReadFull(stays.Body, make([]byte, 20*FrameSize)); err != nil {
		t.Fatal(err)
	}
	send(t, t.Context(), s, http.MethodPost, Finish)
	rest := blocks(t, stays.Body)
	if last := rest[len(rest)-1]; last != EndMarker {
		t.Errorf("got last block %q, want %q", last, EndMarker)
	}
}

func TestGenerationsAreCounted(t *testing.T) {
	s := listen(t)
	for range 3 {
		send(t, t.Context(), s, http.MethodPost, Generate+"?frames=2")
	}
	text, err := io.ReadAll(send(t, t.Context(), s, http.MethodGet, Calls).Body)
	if err != nil || string(text) != "3" {
		t.Errorf("got %q calls (%v), want 3", text, err)
	}
}

func TestWrongQueriesAreRefused(t *testing.T) {
	s := listen(t)
	for _, query := range []string{"", "?rate=x", "?rate=5&frames=5", "?rate=1001"} {
		if got := send(t, t.Context(), s, http.MethodPost, Generate+query).StatusCode; got != http.StatusBadRequest {
			t.Errorf("query %q: got status %d, want 400", query, got)
		}
	}
}

func TestEverySlotIsVisitedOncePerRound(t *testing.T) {
	for _, n := range []int{1, 2, 4, 40, 500, 2000} {
		seen := map[int]bool{}
		for at, i := 0, 0; i < n; i++ {
			seen[at] = true
			at = (at + stride(n)) % n
		}
		if len(seen) != n {
			t.Errorf("stride %d of %d slots: got %d different ones, want all", stride(n), n, len(seen))
		}
	}
}
