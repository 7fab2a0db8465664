package proxy

import (
	"testing"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
)

// TestWhetherPiecesAreMissing is known of streams that this process joined.
func TestWhetherPiecesAreMissing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dialect string
		join    joining
		before  int
		way     Way
		want    bool
	}{
		"never joined":                        {dialect: "dify"},
		"torn":                                {dialect: "dify", join: joining{torn: true, times: 1}, want: true},
		"joined as a whole":                   {dialect: "dify", join: joining{times: 1}},
		"joined as a whole, also before":      {dialect: "dify", join: joining{times: 1}, before: 1},
		"joined before by an owner that died": {dialect: "dify", before: 1, want: true},
		"by a position":                       {dialect: "langgraph", before: 1},
		"by a position that is configured":    {dialect: "dify", before: 1, way: Way{Method: "GET", Target: "/x"}},
	} {
		d, _ := dialect.Lookup(tt.dialect)
		p := &pump{dialect: d, join: tt.join, before: tt.before, cfg: &Config{Join: tt.way}}
		if got := p.torn(); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
