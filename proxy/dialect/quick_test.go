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
	`{"error":"boom","choices":[{"index":0,"delta":{"content":"a"}}]}`,
}

// slowly folds frames of the dialect without its quick way.
func slowly(data string) Snapshot {
	s := spec{Dialect: *openAIChat, find: findChunk, rules: rules{
		"delta": {fold: foldChunk}, "telling": {fold: foldChunk},
		"failure": {fail: paths{"error", ""}, fold: foldChunk}, "done": {bare: true},
	}}
	o := folder{spec: &s}
	o.Fold(1, &frame.Frame{Data: []byte(data), HasData: true})
	return o.Snapshot()
}

func quickly(data string) Snapshot {
	o := openAIChat.NewFolder()
	o.Fold(1, &frame.Frame{Data: []byte(data), HasData: true})
	return o.Snapshot()
}

func TestTheQuickWayFoldsLikeTheSlowOne(t *testing.T) {
	taken := 0
	for _, data := range quickSeeds {
		if got, want := quickly(data).Text, slowly(data).Text; got != want {
			t.Errorf("%s: got %q, want %q", data, got, want)
		}
		if _, ok := plainChunk(&frame.Frame{Data: []byte(data)}); ok {
			taken++
		}
	}
	if taken < 2 {
		t.Errorf("the quick way took %d of the seeds, want at least the two usual ones", taken)
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
		if got, want := quickly(data), slowly(data); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", data, got, want)
		}
	})
}
