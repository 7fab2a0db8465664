package proxy

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/caddy-agent-runs/caddy-agent-runs/proxy/dialect"
	"github.com/caddy-agent-runs/caddy-agent-runs/runregistry"
)

// recordDoc is the public form of a record. Never in it: subject, tenant,
// epoch, instance, upstream address, idempotency key, prompt.
type recordDoc struct {
	RunID           runregistry.RunID          `json:"run_id"`
	ConversationID  runregistry.ConversationID `json:"conversation_id"`
	Route           string                     `json:"route"`
	Attempt         int                        `json:"attempt"`
	PreviousAttempt *string                    `json:"previous_attempt"`
	State           runregistry.State          `json:"state"`
	StateReason     *string                    `json:"state_reason"`
	Effect          runregistry.Effect         `json:"effect"`
	ClientActions   []runregistry.Action       `json:"client_actions"`
	ReleaseID       *string                    `json:"release_id"`
	Resource        *string                    `json:"resource_scope"`
	Model           *string                    `json:"model"`
	Agent           *string                    `json:"agent"`
	CreatedAt       timestamp                  `json:"created_at"`
	DispatchedAt    timestamp                  `json:"dispatched_at"`
	FirstFrameAt    timestamp                  `json:"first_frame_at"`
	LastActivityAt  timestamp                  `json:"last_activity_at"`
	EndedAt         timestamp                  `json:"ended_at"`
	Frames          framesDoc                  `json:"frames"`
	RecordExpiresAt timestamp                  `json:"record_expires_at"`
	Cancel          cancelDoc                  `json:"cancel"`
	Upstream        upstreamDoc                `json:"upstream"`
	Usage           usageDoc                   `json:"usage"`
	Snapshot        *dialect.Snapshot          `json:"snapshot,omitempty"`
	Links           linksDoc                   `json:"links"`
	Revision        uint64                     `json:"revision"`
}

type framesDoc struct {
	Format   runregistry.Format `json:"format"`
	FirstSeq *runregistry.Seq   `json:"first_seq"`
	LastSeq  runregistry.Seq    `json:"last_seq"`
	FinalSeq *runregistry.Seq   `json:"final_seq"`
	Bytes    int64              `json:"bytes"`
	ExpireAt timestamp          `json:"expire_at"`
}

type cancelDoc struct {
	Version     int       `json:"version"`
	RequestedAt timestamp `json:"requested_at"`
	Outcome     *string   `json:"outcome"`
	Upstream    *string   `json:"upstream"`
	Billing     string    `json:"billing"`
}

type upstreamDoc struct {
	Dialect      string  `json:"dialect"`
	Status       *int    `json:"status"`
	ID           *string `json:"id"`
	Reattachable bool    `json:"reattachable"`
	Reattached   int     `json:"reattached"`
}

type usageDoc struct {
	InputTokens  *int64 `json:"input_tokens"`
	OutputTokens *int64 `json:"output_tokens"`
	Source       string `json:"source"`
	Complete     bool   `json:"complete"`
}

type linksDoc struct {
	Self   string `json:"self"`
	Events string `json:"events"`
	Cancel string `json:"cancel"`
}

// publicRecord is a record without its snapshot.
func publicRecord(r *runregistry.Record, l links) *recordDoc {
	return &recordDoc{
		RunID: r.ID, ConversationID: r.Conversation, Route: r.Route, Attempt: r.Attempt, PreviousAttempt: optional(r.Previous),
		State: r.State, StateReason: optional(r.Reason), Effect: r.Effect, ClientActions: r.ClientActions(),
		ReleaseID: optional(r.Release), Resource: optional(r.Resource), Model: optional(r.Model),
		CreatedAt: timestamp(r.CreatedAt), DispatchedAt: timestamp(r.DispatchedAt), FirstFrameAt: timestamp(r.FirstFrameAt),
		LastActivityAt: timestamp(r.ActivityAt), EndedAt: timestamp(r.EndedAt),
		Frames: framesDoc{
			Format: r.Format, FirstSeq: nullable(r.FirstSeq), LastSeq: r.LastSeq, FinalSeq: nullable(r.FinalSeq),
			Bytes: r.Bytes, ExpireAt: timestamp(r.FramesExpireAt),
		},
		RecordExpiresAt: timestamp(r.ExpiresAt), Cancel: cancelOf(r), Upstream: upstreamOf(r), Usage: usageOf(r),
		Links:    linksDoc{Self: l.self(r.ID), Events: l.events(r.ID), Cancel: l.cancel(r.ID)},
		Revision: r.Revision,
	}
}

// stopDoc is the answer to a Stop: the record, and what a Stop of an ended run
// comes to.
func stopDoc(r *runregistry.Record, l links) *recordDoc {
	doc := publicRecord(r, l)
	if doc.Cancel.Outcome == nil && r.State.Terminal() {
		outcome := string(runregistry.AlreadyTerminal)
		doc.Cancel.Outcome = &outcome
	}
	return doc
}

func cancelOf(r *runregistry.Record) cancelDoc {
	billing := "unknown"
	if r.Usage.Reported {
		billing = "reported"
	}
	return cancelDoc{
		Version: r.Cancel.Version, RequestedAt: timestamp(r.Cancel.RequestedAt),
		Outcome: optional(r.Cancel.Outcome), Upstream: optional(r.Cancel.Upstream), Billing: billing,
	}
}

func upstreamOf(r *runregistry.Record) upstreamDoc {
	doc := upstreamDoc{
		Dialect: r.Dialect, ID: optional(r.UpstreamID),
		Reattachable: !r.State.Terminal() && r.Position != "", Reattached: r.Reattached,
	}
	if r.Dialect == "" {
		doc.Dialect = genericDialect.Name
	}
	if r.Response != nil {
		status := r.Response.Status
		doc.Status = &status
	}
	return doc
}

func usageOf(r *runregistry.Record) usageDoc {
	if !r.Usage.Reported {
		return usageDoc{Source: "none"}
	}
	in, out := r.Usage.InputTokens, r.Usage.OutputTokens
	return usageDoc{InputTokens: &in, OutputTokens: &out, Source: sourceUpstream, Complete: r.Usage.Complete}
}

// publicSnapshot returns the snapshot of a record with its completeness as the
// store decided it.
func (e *Engine) publicSnapshot(ctx context.Context, r *runregistry.Record) *dialect.Snapshot {
	s := &dialect.Snapshot{ToolReceipts: []dialect.Receipt{}, Unresolved: []dialect.Call{}}
	if raw := e.snapshotOf(ctx, r); raw != nil {
		if err := json.Unmarshal(raw, s); err != nil {
			e.log.Warn("stored snapshot cannot be read", logRun(r.ID), logError(err))
		}
	}
	s.Complete = s.Complete && r.State == runregistry.Completed
	return s
}

// entityTag names a version of a record: it changes with every frame.
func entityTag(r *runregistry.Record) string {
	b := binary.BigEndian.AppendUint64(nil, r.Revision)
	b = binary.BigEndian.AppendUint64(b, uint64(r.LastSeq))
	sum := digest(slices.Concat([]byte(r.ID), b))
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// writeJSON answers with a JSON document.
func writeJSON(w http.ResponseWriter, status int, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
	return nil
}
