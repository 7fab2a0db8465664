package dialect

import (
	"slices"

	"github.com/tidwall/gjson"
)

// Wishes are what a start asks of the server about its own run. They concern
// nobody but the client, and are honoured over the configuration.
type Wishes struct {
	// Multitask is what to do with a busy conversation: LangGraph's reject,
	// enqueue, interrupt or rollback. Empty: no wish, or one that is unknown.
	Multitask string
	// OnDisconnect is DisconnectCancel, DisconnectContinue or empty.
	OnDisconnect string
}

// The wishes about a client that leaves.
const (
	DisconnectCancel   = "cancel"
	DisconnectContinue = "continue"
)

// WishesOf reads the wishes of a start. The name "auto" or "" stands for a
// dialect that is not known yet: then the path decides. The path is unescaped.
func WishesOf(dialectName, path string, body []byte) Wishes {
	auto := dialectName == "" || dialectName == "auto"
	if dialectName != langGraph.Name && (!auto || !langGraph.generates(path)) {
		return Wishes{}
	}
	return Wishes{
		Multitask:    oneOf(body, "multitask_strategy", "reject", "enqueue", "interrupt", "rollback"),
		OnDisconnect: oneOf(body, "on_disconnect", DisconnectCancel, DisconnectContinue),
	}
}

// oneOf returns the text at a path if it is among the allowed ones.
func oneOf(body []byte, path string, allowed ...string) string {
	text := gjson.GetBytes(body, path).Str
	if slices.Contains(allowed, text) {
		return text
	}
	return ""
}
