package proxy_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
)

func startChat() testkit.Ask { return testkit.Chat("conv-1", "hello") }

// TestKeepaliveComesAfterSilenceOnly is case 65: a comment after 15 s without a
// byte towards the reader, also before the first frame, on every kind of
// connection.
func TestKeepaliveComesAfterSilenceOnly(t *testing.T) {
	cases := []struct {
		name   string
		answer backend
		want   []time.Duration // since the connection was made
	}{
		{"silent start", func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			if pause(r, 65*time.Second) != nil {
				hangUp()
			}
			return say(w, "data: 1\n\n")
		}, []time.Duration{15 * time.Second, 30 * time.Second, 45 * time.Second, 60 * time.Second}},
		{"gap", func(_ int, w http.ResponseWriter, r *http.Request) error {
			sse(w)
			for _, wait := range []time.Duration{0, 10 * time.Second, 40 * time.Second} {
				if pause(r, wait) != nil {
					hangUp()
				}
				if err := say(w, "data: 1\n\n"); err != nil {
					return err
				}
			}
			return nil
		}, []time.Duration{25 * time.Second, 40 * time.Second}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newSite(t, c.answer, generic)
				began := time.Now()
				first := s.Do(t, startChat().Key("k-1"))
				resumed := s.Resume(t, first.Run(), "")
				attached := s.Do(t, startChat().Key("k-1"))
				everyone := map[string]*testkit.Answer{"start": first, "resume": resumed, "attach": attached}
				readAll(everyone)
				for name, answer := range everyone {
					var got []time.Duration
					for _, comment := range answer.Events.Comments {
						if comment.Text != " keepalive" {
							t.Errorf("%s: got comment %q", name, comment.Text)
						}
						got = append(got, comment.At.Sub(began))
					}
					if !slices.Equal(got, c.want) {
						t.Errorf("%s: comments at %v, want %v", name, got, c.want)
					}
				}
			})
		})
	}
}

// readAll reads several answers to their ends at the same time.
func readAll(answers map[string]*testkit.Answer) {
	var reading sync.WaitGroup
	for _, a := range answers {
		reading.Go(func() { a.Events.All() }) //nolint:errcheck // the test looks at what was read
	}
	reading.Wait()
}
