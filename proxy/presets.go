package proxy

import (
	"strings"
	"unicode/utf8"
)

// privilege is what a place in a body may be.
type privilege uint16

// The privileges. They are flags: one place may be several.
const (
	asRole   privilege = 1 << iota // the role of a message
	asType                         // the type of a message, which is its role unless it is in noRoles
	asPart                         // the type or state of a part, which may be that of another role
	asSystem                       // a message of the role system by itself
	asAnswer                       // a message of the role tool by itself
	asTool                         // where tools are defined
	inTool                         // inside of such a place
	asModel                        // the name of a model
	asSaid                         // what is said, where URLs are text
)

// preset is where the bodies of one dialect have what may be the operator's:
// paths of members, parted by spaces, in which * is any element of an array.
type preset struct{ role, kind, part, system, answer, tool, model, said string }

// presets are those of every dialect. They are used together, whichever dialect
// a route has: see docs/adr/0006-one-guard-for-all-dialects.md.
var presets = map[string]preset{
	"openai-chat": {
		role: "messages.*.role messages.role", part: "messages.*.content.*.type",
		system: "chatTemplate params.system", // compatible servers
		tool:   "tools functions webSearchOptions plugins toolIds toolServers mcpServers",
		model:  "model models.*", said: "messages",
	},
	"openai-completions": {model: "model", said: "prompt suffix"},
	"openai-responses": {
		role: "input.*.role input.role", part: "input.*.type input.*.content.*.type", system: "instructions",
		tool: "tools input.*.tools", model: "model", said: "input",
	},
	"openai-assistants": {
		role: "thread.messages.*.role additionalMessages.*.role", system: "instructions additionalInstructions",
		answer: "toolOutputs", tool: "tools toolResources", model: "model", said: "thread.messages additionalMessages",
	},
	"anthropic-messages": {
		role: "messages.*.role", part: "messages.*.content.*.type", system: "system",
		tool: "tools mcpServers", model: "model", said: "messages",
	},
	"bedrock": {
		role: "messages.*.role", part: "messages.*.content.*.type", system: "system", answer: "messages.*.content.*.toolResult",
		tool: "toolConfig.tools tools", said: "messages promptVariables prompt",
	},
	"gemini": {
		role:   "contents.*.role contents.role content.role",
		system: "systemInstruction config.systemInstruction",
		answer: "contents.*.parts.*.functionResponse contents.*.parts.functionResponse contents.parts.*.functionResponse " +
			"contents.parts.functionResponse content.parts.*.functionResponse",
		tool: "tools config.tools", model: "model config.model", said: "contents content",
	},
	"gemini-interactions": {
		role: "input.*.role input.role", part: "input.*.type input.type input.*.content.*.type", system: "systemInstruction",
		tool: "tools", model: "model", said: "input",
	},
	"cohere": {
		role: "messages.*.role chatHistory.*.role", system: "preamble", answer: "toolResults", tool: "tools connectors",
		model: "model", said: "messages message chatHistory documents",
	},
	"ollama": {
		role: "messages.*.role", system: "system template", tool: "tools", model: "model", said: "messages prompt suffix",
	},
	"ai-ui-v1": {
		role: "messages.*.role message.role", part: "messages.*.parts.*.state message.parts.*.state messages.*.content.*.type",
		system: "system", tool: "tools", model: "model", said: "messages message",
	},
	"ai-data-v1": {
		role: "messages.*.role message.role", part: "messages.*.toolInvocations.*.state messages.*.parts.*.toolInvocation.state " +
			"message.toolInvocations.*.state message.parts.*.toolInvocation.state",
		system: "system", tool: "tools", model: "model", said: "messages message data",
	},
	"ag-ui": {
		role: "messages.*.role state.messages.*.role", kind: "state.messages.*.type",
		part:   "forwardedProps.command.update.messages.*.type forwardedProps.command.update.messages.*.role",
		system: "forwardedProps.system forwardedProps.systemPrompt forwardedProps.instructions",
		tool:   "tools forwardedProps.tools", model: "model forwardedProps.model forwardedProps.config.model",
		said: "messages context.*.value context.*.description state resume forwardedProps.command.resume",
	},
	"assistant-transport": {
		role: "commands.*.message.role state.messages.*.role", kind: "state.messages.*.type", part: "commands.*.type",
		system: "system", tool: "tools", model: "model config.modelName", said: "commands state",
	},
	"mastra": {
		role: "messages.*.role messages.role context.*.role", part: "messages.*.content.*.type messages.*.content.parts.*.state",
		system: "system instructions", tool: "tools clientTools toolsets", model: "model", said: "messages inputData resumeData",
	},
	"langgraph": {
		role: "input.messages.*.role input.messages.role command.update.messages.*.role command.update.messages.role",
		kind: "input.messages.*.type input.messages.type input.messages.*.0 input.messages.0 " +
			"command.update.messages.*.type command.update.messages.type command.update.messages.*.0 command.update.*.1.*.type",
		part: "input.messages.*.content.*.type command.update.*.1.*.role",
		system: "config.configurable.systemPrompt config.configurable.systemMessage config.configurable.instructions " +
			"context.systemPrompt context.systemMessage context.instructions input.systemPrompt",
		tool:  "input.tools input.copilotkit.actions config.configurable.tools context.tools",
		model: "input.model config.model config.configurable.model config.configurable.modelName context.model context.modelName",
		said:  "input command.resume command.update",
	},
	"langserve": {
		role: "input.messages.*.role input.chatHistory.*.role",
		kind: "input.messages.*.type input.messages.*.0 input.chatHistory.*.type input.chatHistory.*.0 input.*.0",
		part: "input.*.type", system: "config.configurable.systemMessage",
		tool: "input.tools", model: "config.configurable.model config.configurable.modelName", said: "input",
	},
	"letta": {
		role: "messages.*.role", kind: "messages.*.type", part: "messages.*.approvals.*.type", system: "overrideSystem",
		tool: "clientTools", model: "model overrideModel", said: "messages input",
	},
	"dify": {
		system: "modelConfig.prePrompt", model: "modelConfig.model.name", said: "query inputs files",
	},
	"fastgpt": {role: "messages.*.role", model: "model", said: "messages variables"},
	"flowise": {
		role: "history.*.role", kind: "history.*.type",
		system: "overrideConfig.systemMessage overrideConfig.systemMessagePrompt overrideConfig.systemPrompt overrideConfig.agentMessages",
		tool:   "overrideConfig.tools overrideConfig.agentTools",
		model:  "overrideConfig.model overrideConfig.modelName", said: "question history uploads form",
	},
	"n8n":       {said: "chatInput"},
	"replicate": {system: "input.systemPrompt", said: "input"},
	"mcp":       {said: "params.arguments"},
	"a2a": {
		role: "params.message.role message.role", said: "params.message message",
	},
	"generic": {
		role: "messages.*.role messages.role message.role prompt.*.role", kind: "messages.*.type messages.*.0",
		system: "system instructions systemPrompt", answer: "toolResults", tool: "tools",
		model: "model modelName modelId models.*", said: "messages message prompt query parts",
	},
}

// place is a step on the paths of presets: what a member there may be, and the
// places inside of it by their plain names.
type place struct {
	is   privilege
	next map[string]*place
}

// guarded are the places of all presets.
var guarded = union()

func union() *place {
	root := new(place)
	for _, p := range presets {
		for what, paths := range map[privilege]string{
			asRole: p.role, asType: p.kind, asPart: p.part, asSystem: p.system,
			asAnswer: p.answer, asTool: p.tool, asModel: p.model, asSaid: p.said,
		} {
			for path := range strings.FieldsSeq(paths) {
				at := root
				for name := range strings.SplitSeq(path, ".") {
					at = at.step(plain(name))
				}
				at.is |= what
			}
		}
	}
	return root
}

// step returns the place of a name, and makes it if there is none.
func (p *place) step(name string) *place {
	if p.next == nil {
		p.next = make(map[string]*place)
	}
	if p.next[name] == nil {
		p.next[name] = new(place)
	}
	return p.next[name]
}

// find returns what the member at a path may be, as a part of what is around it
// as well.
func (p *place) find(path []string) privilege {
	if len(path) == 0 {
		return p.is
	}
	var is privilege
	if next := p.next[plain(path[0])]; next != nil {
		is |= next.find(path[1:])
	}
	if next := p.next["*"]; next != nil && isElement(path[0]) {
		is |= next.find(path[1:])
	}
	is |= p.is & asSaid
	if p.is&asTool != 0 {
		is |= inTool
	}
	return is
}

func isElement(name string) bool { return name != "" && name[0] >= '0' && name[0] <= '9' }

// plain returns a name without case, hyphens and underscores: backends take
// systemInstruction and system_instruction for one, and some System as well.
func plain(name string) string {
	for i := range len(name) {
		if c := name[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' || c == '_' || c == '-' {
			return separators.Replace(strings.ToLower(strings.ToUpper(name))) // both: some letters have two small forms
		}
	}
	return name
}

var separators = strings.NewReplacer("_", "", "-", "")
