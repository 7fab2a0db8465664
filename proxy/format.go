package proxy

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// format is the answer format of an events request.
type format struct {
	view view
	page bool // a finite JSON page
}

// Media types of the events resource.
const (
	typeSSE    = "text/event-stream"
	typeNDJSON = "application/x-ndjson"
	typeJSON   = "application/json"
	typeOther  = "other" // none of ours, or refused
)

// chooseFormat decides by Accept and ?control=: the run's own format unless
// another one is asked for.
func (h *Handler) chooseFormat(r *http.Request, rec *runregistry.Record) (format, error) {
	control := r.URL.Query().Get("control") != "off"
	wanted := preferred(r.Header.Values("Accept"))
	own := rec.Format
	switch {
	case own == runregistry.FormatOpaque && wanted != "":
		return format{}, refuse(codeNotAcceptable, "This run is a plain body: ask for */*.")
	case wanted == typeJSON:
		return format{page: true}, nil
	case wanted == typeNDJSON && (control || own == runregistry.FormatSSE):
		v := h.controlView(rec)
		v.form, v.control, v.keepalive = formEnvelope, control, keepaliveEnvelope
		return format{view: v}, nil
	case wanted == typeSSE || wanted == "" && own == runregistry.FormatSSE:
		return format{view: h.eventStream(rec, control)}, nil
	case wanted == "" || wanted == typeNDJSON:
		return format{view: h.ownView(rec)}, nil
	}
	return format{}, refuse(codeNotAcceptable, "Accept text/event-stream, application/x-ndjson or application/json.")
}

func (h *Handler) eventStream(rec *runregistry.Record, control bool) view {
	if control {
		return h.controlView(rec)
	}
	v := h.ownView(rec)
	if v.form != formSSE {
		v.form, v.ids, v.keepalive = formSSE, true, keepaliveSSE
	}
	return v
}

// preferred returns the media type that Accept prefers among ours: empty for
// any, and [typeOther] when none of ours will do.
func preferred(accept []string) string {
	best, bestQ, unknown := "", -1.0, ""
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		essence, params, err := mime.ParseMediaType(item)
		if err != nil {
			continue
		}
		q := 1.0
		if v, err := strconv.ParseFloat(params["q"], 64); err == nil {
			q = v
		}
		name, ours := acceptable[essence]
		switch {
		case !ours || q <= 0:
			unknown = typeOther
		case q > bestQ:
			best, bestQ = name, q
		}
	}
	if bestQ < 0 {
		return unknown
	}
	return best
}

var acceptable = map[string]string{
	"*/*": "", "text/*": typeSSE, "application/*": typeJSON,
	typeSSE: typeSSE, typeNDJSON: typeNDJSON, "application/ndjson": typeNDJSON, typeJSON: typeJSON,
}
