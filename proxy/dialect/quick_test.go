package dialect

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/frame"
)

// quickSeeds are chunks that the quick way takes, and such that only look like
// it.
var quickSeeds = []string{
	`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":"hi"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"ab"}`,
	`{"choices":[{"index":0,"delta":{"content":"a\"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a\nb"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a","role":"assistant"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}}]}`,
	`{"raw":{"choices":[{"index":0,"delta":{"content":"no"}}]},"choices":[{"index":0,"delta":{"content":"yes"}}]}`,
	`{"note":"\"choices\":[{\"index\":0,\"delta\":{\"content\":\"","choices":[{"index":0,"delta":{"content":"a"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"text":"b"}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"}}],"choices":[{"index":0,"delta":{"content":"b"}}]}`,
	`{"choices":[{"index":0,"delta":{"content":"漢`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`,
	`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason"  :"stop"}]}`,
	`{"id":"c","object":"text_completion","choices":[{"text":"hi","index":0,"logprobs":null,"finish_reason":null}],"model":"m"}`,
	`{"id":"c","object":"text_completion","choices":[{"index":0,"text":"hi","logprobs":null,"finish_reason":null}],"usage":null}`,
	`{"choices":[{"text":"a","index":1},{"text":"b","index":0}]}`,
	`{"choices":[{"text":"a","index":0,"finish_reason":"length"}]}`,
	`{"choices":[{"text":"a","index":0,"text":"b"}]}`,
	`{"choices":[{"index":0,"text":"a","delta":{"content":"b"}}]}`,
	`{"raw":{"choices":[{"text":"no","index":0}]},"choices":[{"text":"yes","index":0}]}`,
	`{"error":"boom","choices":[{"index":0,"delta":{"content":"a"}}]}`,
}

// slowly folds frames of the dialects without their quick way.
func slowly(data string) Snapshot {
	s := spec{Dialect: *openAIChat, find: findChunk, rules: chunkRules}
	o := folder{spec: &s}
	o.Fold(1, &frame.Frame{Data: []byte(data), HasData: true})
	return o.Snapshot()
}

func quickly(d *Dialect, data string) Snapshot {
	o := d.NewFolder()
	o.Fold(1, &frame.Frame{Data: []byte(data), HasData: true})
	return o.Snapshot()
}

var quick = []*Dialect{openAIChat, openAICompletions}

func TestTheQuickWayFoldsLikeTheSlowOne(t *testing.T) {
	taken := 0
	for _, data := range quickSeeds {
		for _, d := range quick {
			if got, want := quickly(d, data).Text, slowly(data).Text; got != want {
				t.Errorf("%s: %s: got %q, want %q", d.Name, data, got, want)
			}
		}
		for _, plain := range []func(*frame.Frame) ([]byte, bool){plainChunk, plainCompletion} {
			if _, ok := plain(&frame.Frame{Data: []byte(data)}); ok {
				taken++
			}
		}
	}
	if taken < 4 {
		t.Errorf("the quick ways took %d of the seeds, want at least the four usual ones", taken)
	}
}

func FuzzQuickFold(f *testing.F) {
	for _, data := range quickSeeds {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if !valid([]byte(data)) || strings.Count(data, `"choices"`) > 1 {
			return // only whole JSON has a meaning, and doubled members have none
		}
		for _, d := range quick {
			if got, want := quickly(d, data), slowly(data); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s: got %+v, want %+v", d.Name, data, got, want)
			}
		}
	})
}
