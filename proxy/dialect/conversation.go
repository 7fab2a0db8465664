package dialect

import (
	"strings"

	"github.com/tidwall/gjson"
)

// field is the place of a dialect's own in which requests name their
// conversation.
type field struct {
	dialect string
	// mine recognises the requests of the dialect when it is not known yet.
	mine func(path string, body []byte) bool
	find func(path string, body []byte) string
}

// fields are tried in this order; the first that is somebody's decides.
var fields = []field{
	{agUI.Name, func(_ string, body []byte) bool { return isRunInput(body) }, inBody("threadId", "body.threadId")},
	{langGraph.Name, func(path string, _ []byte) bool { return threadOf(path) != "" }, func(path string, _ []byte) string { return threadOf(path) }},
	{openAIResponses.Name, func(path string, _ []byte) bool { return openAIResponses.generates(path) }, inBody("conversation", "conversation.id")},
	{openAIAssistants.Name, func(string, []byte) bool { return false }, func(path string, _ []byte) string { return threadOf(path) }},
	{dify.Name, isDify, inBody("conversation_id")},
	{a2a.Name, func(_ string, body []byte) bool { return isA2ARequest(nil, body) }, inBody("params.message.contextId", "message.contextId")},
	{fastGPT.Name, func(_ string, body []byte) bool { return hasMessages(body) && hasText(body, "chatId") }, inBody("chatId")},
	{flowise.Name, func(path string, body []byte) bool { return flowise.generates(path) && hasText(body, "question") }, inBody("chatId", "overrideConfig.sessionId")},
	{n8n.Name, func(_ string, body []byte) bool { return hasText(body, "chatInput") }, inBody("sessionId")},
	{aiUI.Name, isChat, inBody("id")},
	{aiData.Name, isChat, inBody("id")},
}

func inBody(where ...string) func(string, []byte) string {
	return func(_ string, body []byte) string {
		for _, path := range where {
			if v := gjson.GetBytes(body, path); v.Type == gjson.String && v.Str != "" {
				return v.Str
			}
		}
		return ""
	}
}

func hasText(body []byte, path string) bool { return gjson.GetBytes(body, path).Str != "" }

func isDify(path string, body []byte) bool {
	return gjson.GetBytes(body, "response_mode").Str != "" || matchTail("/chat-messages", path)
}

// isChat: the AI SDK sends the messages, or only the last one.
func isChat(_ string, body []byte) bool {
	return hasMessages(body) || gjson.GetBytes(body, "message").IsObject()
}

// threadOf is the thread in LangGraph's paths: /threads/{thread}/runs/...
func threadOf(path string) string {
	_, rest, _ := strings.Cut(path, "/threads/")
	thread, after, _ := strings.Cut(rest, "/")
	if after != "runs" && !strings.HasPrefix(after, "runs/") {
		return ""
	}
	return thread
}

// Conversation returns the conversation that a start names in the dialect's own
// field. The name "auto" or "" stands for a dialect that is not known yet: then
// the form of the request decides. The path is unescaped. Whether the value is
// a valid id is not looked at.
func Conversation(dialectName, path string, body []byte) (string, bool) {
	auto := dialectName == "" || dialectName == "auto"
	for _, f := range fields {
		if auto && f.mine(path, body) || f.dialect == dialectName {
			id := f.find(path, body)
			return id, id != ""
		}
	}
	return "", false
}

// RunKey returns the id that a client chose for what it starts; it serves as an
// idempotency key: the run of AG-UI, the answer of FastGPT.
func RunKey(body []byte) (string, bool) {
	switch {
	case isRunInput(body):
		return inBody("runId", "body.runId")("", body), true
	case hasMessages(body) && hasText(body, "responseChatItemId"):
		return gjson.GetBytes(body, "responseChatItemId").Str, true
	default:
		return "", false
	}
}

// Model returns the model that a start asks for, or nothing.
func Model(body []byte) string { return kept(gjson.GetBytes(body, "model").Str) }
