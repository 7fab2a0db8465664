package proxy

import (
	"context"
	"net/http"

	"github.com/caddy-agent-runs/caddy-agent-runs/authz"
)

// ticketResource gives tickets out, if the configuration says so.
const ticketResource = "{run}/ticket"

// ticketQuery is the query member that holds a ticket.
const ticketQuery = "ticket"

// ticketable are the resources that a ticket can read.
var ticketable = map[string]bool{"{run}": true, "{run}/events": true}

// ticketIn returns the ticket of a request. More than one are none.
func (h *Handler) ticketIn(r *http.Request) (text string, held bool) {
	if h.deps.Tickets == nil || r.URL.RawQuery == "" {
		return "", false
	}
	values, held := r.URL.Query()[ticketQuery]
	if len(values) == 1 {
		text = values[0]
	}
	return text, held
}

// checkTicket refuses a ticket on everything but what it can read. It looks at
// no run.
func (h *Handler) checkTicket(w http.ResponseWriter, r *http.Request, resource string) error {
	if _, held := h.ticketIn(r); !held {
		return nil
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	if !ticketable[resource] || methodOf(r) != http.MethodGet {
		return refuse(codeScope, "A ticket reads the record and the events of its run.")
	}
	return nil
}

// ticketScope is what a ticket is good for: one run, under the realm in which
// it was given out.
func (h *Handler) ticketScope(r *http.Request, id string) string { return h.realmOf(r) + "/" + id }

// readerOf returns what tells who reads a run: the ticket in the URL, else the
// request's own credentials.
func (h *Handler) readerOf(r *http.Request, id string) func() (authz.Caller, error) {
	text, held := h.ticketIn(r)
	if !held {
		return h.identifier(r)
	}
	return func() (authz.Caller, error) {
		return h.deps.Tickets.Read(context.WithoutCancel(r.Context()), text, h.ticketScope(r, id))
	}
}

// identifyReader tells who reads a run. The error is a problem.
func (h *Handler) identifyReader(r *http.Request, id string) (authz.Caller, error) {
	caller, err := h.readerOf(r, id)()
	if err != nil {
		return caller, h.challenged(err)
	}
	return caller, nil
}

// ticketDoc is the answer with a ticket.
type ticketDoc struct {
	URL       string    `json:"url"`
	ExpiresAt timestamp `json:"expires_at"`
}

// serveTicket serves POST {api}/{run}/ticket: an address at which the run can
// be read without credentials for a while. Whoever may read may have one.
func (h *Handler) serveTicket(w http.ResponseWriter, r *http.Request, id string) error {
	caller, err := h.identify(r)
	if err != nil {
		return err
	}
	if err := h.permit(caller, authz.Read); err != nil {
		return h.challenged(err)
	}
	if err := h.guardSite(r, caller); err != nil {
		return err
	}
	rec, err := h.visible(r, caller, id)
	if err != nil {
		return err
	}
	var claims map[string]any
	if policy, ok := h.policy().(authz.Carrier); ok {
		claims = policy.Carry(authz.Ask{Verb: authz.Read, Caller: caller, Request: r, Conversation: string(rec.Conversation)})
	}
	text, expires, err := h.deps.Tickets.Issue(r.Context(), caller, h.ticketScope(r, string(rec.ID)), claims)
	if err != nil {
		return err
	}
	noStore(w.Header())
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set(headerRunID, string(rec.ID))
	return writeJSON(w, http.StatusCreated, ticketDoc{
		URL: h.linksFor(r).events(rec.ID) + "?" + ticketQuery + "=" + text, ExpiresAt: timestamp(expires),
	})
}
