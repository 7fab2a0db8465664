package redisstore

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/internal/testkit"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// eachScript calls f with every script and its own text.
func eachScript(t *testing.T, f func(s *script, text string)) {
	t.Helper()
	files, err := fs.Glob(sources, "scripts/*.lua")
	if err != nil || len(files) != len(allScripts) {
		t.Fatalf("got scripts %v and error %v, want %d", files, err, len(allScripts))
	}
	for _, s := range allScripts {
		text, err := fs.ReadFile(sources, "scripts/"+s.name+".lua")
		if err != nil {
			t.Fatal(err)
		}
		f(s, string(text))
	}
}

func TestScriptsSayWhatTheyTakeAndGive(t *testing.T) {
	promise := regexp.MustCompile(`(?s)^-- [A-Z].*\n--\n-- KEYS  .*\n-- ARGV  .*\n-- says  .*`)
	eachScript(t, func(s *script, text string) {
		head, _, _ := strings.Cut(text, "\nlocal ")
		if !promise.MatchString(head) {
			t.Errorf("%s: got the head\n%s\nwant what it does, KEYS, ARGV and what it says", s.name, head)
		}
		writes := regexp.MustCompile(`redis\.call\('(HSET|SET|XADD|ZADD|DEL)'|rewrite\(|set_readers\(`).MatchString(text)
		if writes && !strings.Contains(head, "Sent twice:") {
			t.Errorf("%s: got no word on what happens when it is sent twice", s.name)
		}
	})
}

// What a script wrote before it failed stays. Therefore it refuses before it
// writes, and says nothing but ok afterwards.
func TestScriptsRefuseBeforeTheyWrite(t *testing.T) {
	write := regexp.MustCompile(`redis\.call\('(HSET|HINCRBY|SET|XADD|XTRIM|ZADD|ZREM|DEL)'|\b(rewrite|finish|claim|release|hold|leave_index|set_readers|once)\(`)
	said := regexp.MustCompile(`say\('([a-z]+)'`)
	eachScript(t, func(s *script, text string) {
		first := write.FindStringIndex(text)
		if first == nil {
			return
		}
		for _, word := range said.FindAllStringSubmatch(text[first[1]:], -1) {
			if word[1] != "ok" {
				t.Errorf("%s: got %q after its first write, want it before", s.name, word[1])
			}
		}
	})
}

// In a Cluster a key that is not among KEYS may be on another server.
func TestScriptsMakeUpNoKeys(t *testing.T) {
	made := regexp.MustCompile(`redis\.call\('[A-Z]+', *['"]|redis\.call\('[A-Z]+', *[a-z_.]+ *\.\.`)
	eachScript(t, func(s *script, text string) {
		for _, found := range made.FindAllString(text, -1) {
			if !strings.Contains(found, "'PUBLISH'") {
				t.Errorf("%s: got %s, want a name from KEYS", s.name, found)
			}
		}
	})
}

// The variant for a full server must compile, where the server knows it.
func TestScriptsCompileOnAFullServer(t *testing.T) {
	r := testkit.StartRedis(t)
	c := r.Client()
	defer func() { _ = c.Close() }()
	eachScript(t, func(s *script, _ string) {
		if sha, err := c.ScriptLoad(t.Context(), s.text).Result(); err != nil || sha != s.sha {
			t.Errorf("%s: got hash %s and error %v, want %s", s.name, sha, err, s.sha)
		}
		if err := c.ScriptLoad(t.Context(), s.roomy).Err(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	})
}

// The script counts deliveries as the core does, after every sequence of four
// events.
func TestDeliveriesAreCountedAsTheCoreCountsThem(t *testing.T) {
	r := testkit.StartRedis(t)
	s, err := Open(Options{Addrs: []string{r.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const attach, kinds, length = 0, 5, 4
	for n := range kinds * kinds * kinds * kinds {
		sub := runregistry.Subject{Sub: "s"}
		scope := runregistry.SubjectScope(sub)
		a := &runregistry.Admission{
			Run: runregistry.NewRunID(partition(scope)), Subject: sub, Scope: scope, Key: runregistry.Digest{1, byte(n), byte(n >> 8)},
			Retention: runregistry.Retention{Record: 1e9},
		}
		d, err := s.Admit(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		want := *d.Record
		for step, rest := 0, n; step < length; step, rest = step+1, rest/kinds {
			event := runregistry.DeliveryEvent(rest % kinds)
			if event == attach {
				want.Attach()
				if _, err = s.Admit(t.Context(), &runregistry.Admission{
					Run: runregistry.NewRunID(partition(scope)), Subject: sub, Scope: scope, Key: a.Key, Retention: a.Retention,
				}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want.Delivery.Apply(event)
			if err := s.Deliver(t.Context(), a.Run, event); err != nil {
				t.Fatal(err)
			}
		}
		got, err := s.Load(t.Context(), a.Run)
		if err != nil || got.Delivery != want.Delivery {
			t.Fatalf("sequence %d: got %+v and error %v, want %+v", n, got.Delivery, err, want.Delivery)
		}
	}
}
